//! Returns the rows of a result as batches, in the types of tables.

use super::small_offsets::with_small_offsets;
use crate::exchange::{batch_of, frame_of};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{Field, Schema, SchemaRef};
use polars::error::PolarsResult;
use polars::prelude::{Column, DataFrame, DataType, Field as FrameField};
use std::sync::Arc;
use trainyard_core::{Error, Result};

/// Rows of a batch of a result.
const ROWS: usize = 16_384;

/// Result of a statement.
pub struct FrameResult {
    rows: DataFrame,
}

impl FrameResult {
    pub(super) fn new(rows: DataFrame) -> Self {
        Self { rows }
    }
    /// Returns the number of rows.
    pub fn rows(&self) -> u64 {
        self.rows.height() as u64
    }
    /// Returns the names of the columns, in order.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.rows.columns().iter().map(|column| column.name().as_str())
    }
    /// Returns the schema of the batches. Text and lists have 32-bit offsets, and a column of nulls alone is text.
    ///
    /// Errors: invalid (a column whose type no table has).
    pub fn schema(&self) -> Result<SchemaRef> {
        Ok(batch(&self.rows.clear())?.schema())
    }
    /// Returns the rows in batches of bounded size.
    ///
    /// Errors: invalid (a column whose type no table has), data (texts or lists too large for one batch).
    pub fn batches(&self) -> impl Iterator<Item = Result<RecordBatch>> {
        (0..self.rows.height()).step_by(ROWS).map(|first| batch(&self.rows.slice(first as i64, ROWS)))
    }
    /// Converts numbers to the types of the columns of the same names in `schema`; other columns stay.
    ///
    /// Errors: invalid (a column of another kind of value), data (a number outside the range of its type), both naming
    /// the column.
    pub fn typed(&self, schema: &SchemaRef) -> Result<Self> {
        let expected = frame_of(&RecordBatch::new_empty(schema.clone()))?;
        let column = |column: &Column| match expected.column(column.name()) {
            Ok(wanted) => typed_column(column, wanted.dtype()),
            Err(_) => Ok(column.clone()),
        };
        let columns = self.rows.columns().iter().map(column).collect::<Result<Vec<_>>>()?;
        let rows = DataFrame::new(self.rows.height(), columns);
        Ok(Self { rows: rows.map_err(|e| Error::bug(format!("converted columns are no frame: {e}")))? })
    }
}

fn typed_column(column: &Column, wanted: &DataType) -> Result<Column> {
    let name = column.name();
    let Some(target) = retyped(column.dtype(), wanted) else {
        let message = format!("column `{name}` has type {}, but {wanted} is needed", column.dtype());
        return Err(Error::invalid(message).help(format!("convert it in `sql`, or select another column as `{name}`")));
    };
    column.strict_cast(&target).map_err(|e| {
        let text = e.to_string();
        let reason = text.lines().next().unwrap_or_default().to_string();
        Error::data(format!("column `{name}` does not fit {wanted}: {reason}"))
            .help("limit the values in `sql`, e.g. by `greatest(x, 0)` or a `where`")
    })
}

/// Returns the type to which a column is converted for an expected one: structs keep their fields. `None` if the values
/// are of another kind.
fn retyped(found: &DataType, wanted: &DataType) -> Option<DataType> {
    match (found, wanted) {
        (DataType::Null, _) => Some(wanted.clone()),
        (DataType::List(found), DataType::List(wanted)) => {
            retyped(found, wanted).map(|item| DataType::List(Box::new(item)))
        }
        (DataType::Struct(found), DataType::Struct(wanted)) => {
            let field = |field: &FrameField| match wanted.iter().find(|other| other.name == field.name) {
                Some(wanted) => Some(FrameField::new(field.name.clone(), retyped(&field.dtype, &wanted.dtype)?)),
                None => Some(field.clone()),
            };
            found.iter().map(field).collect::<Option<Vec<_>>>().map(DataType::Struct)
        }
        _ if found == wanted => Some(found.clone()),
        _ if found.is_integer() && wanted.is_integer() => Some(wanted.clone()),
        _ if (found.is_integer() || found.is_float()) && wanted.is_float() => Some(wanted.clone()),
        _ => None,
    }
}

/// Returns a type in which values that are all null are texts, as tables have no type of nulls.
fn without_nulls(kind: &DataType) -> DataType {
    match kind {
        DataType::Null => DataType::String,
        DataType::List(item) => DataType::List(Box::new(without_nulls(item))),
        DataType::Struct(fields) => {
            let field = |field: &FrameField| FrameField::new(field.name.clone(), without_nulls(&field.dtype));
            DataType::Struct(fields.iter().map(field).collect())
        }
        other => other.clone(),
    }
}

fn batch(rows: &DataFrame) -> Result<RecordBatch> {
    let columns = rows.columns().iter().map(|column| column.cast(&without_nulls(column.dtype())));
    let typed = columns.collect::<PolarsResult<Vec<_>>>().and_then(|columns| DataFrame::new(rows.height(), columns));
    let wide = batch_of(&typed.map_err(|e| Error::bug(format!("nulls cannot become texts: {e}")))?)?;
    let mut fields = Vec::new();
    let mut arrays: Vec<ArrayRef> = Vec::new();
    for (field, column) in wide.schema_ref().fields().iter().zip(wide.columns()) {
        let array = with_small_offsets(column).map_err(|e| e.at(format!("column `{}` of the result", field.name())))?;
        fields.push(Field::new(field.name(), array.data_type().clone(), true));
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(wide.num_rows()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        .map_err(|e| Error::bug(format!("a result is no batch: {e}")))
}
