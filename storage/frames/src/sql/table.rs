//! Describes the tables of a statement: a name, files, and the columns of all files.

use arrow_array::{Array as _, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trainyard_core::{Error, Result};
use trainyard_tables::{ExtraColumns, Problem, TableRow, Trajectory, conform_rows, read_schema};

/// Rows of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rows {
    Problems,
    Trajectories,
    Other,
}

/// A table of a statement. Its rows are those of all files, in order.
#[derive(Debug, Clone)]
pub struct FrameTable {
    name: String,
    files: Vec<PathBuf>,
    schema: SchemaRef,
    rows: Rows,
}

impl FrameTable {
    /// Takes files with problems; without files, an empty table.
    pub fn problems(name: &str, files: Vec<PathBuf>) -> Self {
        let schema = Problem::schema(ExtraColumns::ALL);
        Self { name: name.into(), files, schema, rows: Rows::Problems }
    }
    /// Takes files with trajectories; without files, an empty table.
    pub fn trajectories(name: &str, files: Vec<PathBuf>) -> Self {
        let schema = Trajectory::schema(ExtraColumns::ALL);
        Self { name: name.into(), files, schema, rows: Rows::Trajectories }
    }
    /// Takes files of any columns. A column that only some files have is null in the others.
    ///
    /// Errors: invalid (no such file), data (a damaged file, a column of two types).
    pub fn open(name: &str, files: Vec<PathBuf>) -> Result<Self> {
        let mut fields: Vec<FieldRef> = Vec::new();
        for file in &files {
            for field in read_schema(file)?.fields() {
                let found = field.data_type().clone();
                match fields.iter().find(|known| known.name() == field.name()) {
                    None => fields.push(Arc::new(Field::new(field.name(), found, true))),
                    Some(known) if same_type(known.data_type(), &found) => {}
                    Some(known) => {
                        let message = format!(
                            "input `{name}`: column `{}` has type {found} in {}, and {} before",
                            field.name(),
                            file.display(),
                            known.data_type()
                        );
                        return Err(Error::data(message).help("give the artifacts as two inputs"));
                    }
                }
            }
        }
        Ok(Self { name: name.into(), files, schema: Arc::new(Schema::new(fields)), rows: Rows::Other })
    }
    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }
    /// Returns the names of the columns, in order.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.schema.fields().iter().map(|field| field.name().as_str())
    }
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }
    pub(super) fn files(&self) -> &[PathBuf] {
        &self.files
    }
    /// Returns the columns of a file to read for some columns of the table; at least one, for the number of rows.
    pub(super) fn stored(&self, file: &Path, columns: &[String]) -> Result<Vec<String>> {
        let schema = read_schema(file)?;
        let names = || schema.fields().iter().map(|field| field.name());
        let wanted: Vec<String> = names().filter(|name| columns.contains(name)).cloned().collect();
        Ok(if wanted.is_empty() { names().take(1).cloned().collect() } else { wanted })
    }
    /// Converts a batch of a file to some columns of the table.
    ///
    /// Errors: data, naming the file and the column.
    pub(super) fn conform(&self, file: &Path, batch: &RecordBatch, columns: &[String]) -> Result<RecordBatch> {
        match self.rows {
            Rows::Problems => conform_rows::<Problem>(file, batch, Some(columns)),
            Rows::Trajectories => conform_rows::<Trajectory>(file, batch, Some(columns)),
            Rows::Other => self.with_missing(file, batch, columns),
        }
    }

    fn with_missing(&self, file: &Path, batch: &RecordBatch, columns: &[String]) -> Result<RecordBatch> {
        let wanted = self.schema.fields().iter().filter(|field| columns.contains(field.name()));
        let column = |field: &FieldRef| match batch.column_by_name(field.name()) {
            Some(column) => (Field::new(field.name(), column.data_type().clone(), true), column.clone()),
            None => (field.as_ref().clone(), new_null_array(field.data_type(), batch.num_rows())),
        };
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = wanted.map(column).unzip();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
            .map_err(|e| Error::data(format!("{}: {e}", file.display())))
    }
}

/// Whether two types differ in the names and nullability of list items at most.
fn same_type(a: &DataType, b: &DataType) -> bool {
    match (a, b) {
        (DataType::List(a), DataType::List(b)) => same_type(a.data_type(), b.data_type()),
        (DataType::Struct(a), DataType::Struct(b)) => {
            a.len() == b.len()
                && a.iter().zip(b).all(|(a, b)| a.name() == b.name() && same_type(a.data_type(), b.data_type()))
        }
        _ => a == b,
    }
}
