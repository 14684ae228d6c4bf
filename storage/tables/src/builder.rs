//! Builds small tables column by column, for `table` artifacts and reports.

use crate::encode::{optional_numbers, optional_strings};
use crate::file::write_batches;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::{Field, Schema};
use std::path::Path;
use std::sync::Arc;
use trainyard_core::{Error, Result};

/// A table under construction: columns by name, each of values or `Option`s of them.
///
/// ```
/// # use trainyard_tables::TableBuilder;
/// let table = TableBuilder::new().string("model", ["sft", "rl"]).f64("accuracy", [Some(0.2), None]);
/// assert_eq!(table.rows(), 2);
/// ```
#[derive(Debug, Clone, Default)]
pub struct TableBuilder {
    columns: Vec<(String, ArrayRef)>,
}

impl TableBuilder {
    /// Creates a table without columns.
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds a column of 64-bit floats.
    #[must_use]
    pub fn f64<V: Into<Option<f64>>>(self, name: &str, values: impl IntoIterator<Item = V>) -> Self {
        self.column(name, optional_numbers::<Float64Type>(values.into_iter().map(Into::into)))
    }
    /// Adds a column of 64-bit integers.
    #[must_use]
    pub fn i64<V: Into<Option<i64>>>(self, name: &str, values: impl IntoIterator<Item = V>) -> Self {
        self.column(name, optional_numbers::<Int64Type>(values.into_iter().map(Into::into)))
    }
    /// Adds a column of booleans.
    #[must_use]
    pub fn bool<V: Into<Option<bool>>>(self, name: &str, values: impl IntoIterator<Item = V>) -> Self {
        let values: Vec<Option<bool>> = values.into_iter().map(Into::into).collect();
        self.column(name, Arc::new(BooleanArray::from(values)))
    }
    /// Adds a column of text.
    #[must_use]
    pub fn string<V: AsRef<str>>(self, name: &str, values: impl IntoIterator<Item = V>) -> Self {
        let values: Vec<V> = values.into_iter().collect();
        self.column(name, optional_strings(values.iter().map(|v| Some(v.as_ref()))))
    }
    /// Adds a column of text with nulls.
    #[must_use]
    pub fn optional_string<V: AsRef<str>>(self, name: &str, values: impl IntoIterator<Item = Option<V>>) -> Self {
        let values: Vec<Option<V>> = values.into_iter().collect();
        self.column(name, optional_strings(values.iter().map(|v| v.as_ref().map(AsRef::as_ref))))
    }
    /// Adds a column of any Arrow type.
    #[must_use]
    pub fn column(mut self, name: &str, values: ArrayRef) -> Self {
        self.columns.push((name.to_string(), values));
        self
    }
    /// Returns the number of rows of the first column.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }
    /// Returns all columns as one batch. Errors: bug (columns of different lengths, or two with the same name).
    pub fn build(&self) -> Result<RecordBatch> {
        for (i, (name, column)) in self.columns.iter().enumerate() {
            if column.len() != self.rows() {
                return Err(Error::bug(format!(
                    "column `{name}` has {} rows, `{}` has {}",
                    column.len(),
                    self.columns[0].0,
                    self.rows()
                )));
            }
            if self.columns[..i].iter().any(|(other, _)| other == name) {
                return Err(Error::bug(format!("two columns are called `{name}`")));
            }
        }
        let fields: Vec<_> =
            self.columns.iter().map(|(name, column)| Field::new(name, column.data_type().clone(), true)).collect();
        let columns = self.columns.iter().map(|(_, column)| column.clone()).collect();
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(self.rows()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
            .map_err(|e| Error::bug(format!("a table cannot be built: {e}")))
    }
    /// Writes the table as Parquet. Returns the number of rows.
    pub fn write(&self, path: &Path) -> Result<u64> {
        let batch = self.build()?;
        write_batches(path, batch.schema(), &[batch])
    }
}
