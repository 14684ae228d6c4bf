//! Converts cells and rows to JSON, complete or truncated for a preview.
//!
//! Numbers keep their value (an f32 prints as its shortest text), NaN and infinities become null, bytes become
//! lower-case hexadecimal, and dates and other rare types become their Arrow text.

use crate::file::{BatchReader, ReadSlice};
use crate::source::TableSource;
use crate::text_cells::text_of;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use serde_json::{Map, Number, Value};
use trainyard_core::Result;

/// Limits on the size of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CellLimits {
    /// Maximum characters of a text.
    pub text: usize,
    /// Maximum items of a list or map.
    pub items: usize,
}

impl CellLimits {
    /// No limits.
    pub const NONE: Self = Self { text: usize::MAX, items: usize::MAX };
    /// Limits of a manifest's preview.
    pub const PREVIEW: Self = Self { text: 240, items: 24 };
}

/// Returns at most `limit` rows from row `offset` on, as untruncated JSON objects with all columns.
pub fn rows_as_json(source: impl Into<TableSource>, offset: usize, limit: usize) -> Result<Vec<Value>> {
    part_as_json(source, &ReadSlice { offset, limit: Some(limit), columns: None })
}

/// Returns all rows as untruncated JSON objects with these columns only; absent columns are left out.
pub fn columns_as_json(source: impl Into<TableSource>, columns: &[&str]) -> Result<Vec<Value>> {
    let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
    part_as_json(source, &ReadSlice { columns: Some(&columns), ..ReadSlice::default() })
}

/// Returns part of a table as untruncated JSON objects.
pub fn part_as_json(source: impl Into<TableSource>, part: &ReadSlice<'_>) -> Result<Vec<Value>> {
    let mut rows = Vec::new();
    for batch in BatchReader::open_part(source, part)? {
        let batch = batch?;
        rows.extend((0..batch.num_rows()).map(|row| row_as_json(&batch, row, CellLimits::NONE)));
    }
    Ok(rows)
}

/// Returns one row as a JSON object.
pub fn row_as_json(batch: &RecordBatch, row: usize, limits: CellLimits) -> Value {
    let names = batch.schema_ref().fields().iter().map(|field| field.name().clone());
    Value::Object(names.zip(batch.columns()).map(|(name, column)| (name, cell_as_json(column, row, limits))).collect())
}

/// Returns one cell as JSON.
pub fn cell_as_json(column: &dyn Array, row: usize, limits: CellLimits) -> Value {
    if column.is_null(row) {
        return Value::Null;
    }
    match column.data_type() {
        DataType::Null => Value::Null,
        DataType::Boolean => column.as_boolean().value(row).into(),
        DataType::Int8 => column.as_primitive::<Int8Type>().value(row).into(),
        DataType::Int16 => column.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => column.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).into(),
        DataType::UInt8 => column.as_primitive::<UInt8Type>().value(row).into(),
        DataType::UInt16 => column.as_primitive::<UInt16Type>().value(row).into(),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row).into(),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).into(),
        DataType::Float32 => single(column.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).into(),
        DataType::Utf8 => text(column.as_string::<i32>().value(row), limits),
        DataType::LargeUtf8 => text(column.as_string::<i64>().value(row), limits),
        DataType::Utf8View => text(column.as_string_view().value(row), limits),
        DataType::Binary => bytes(column.as_binary::<i32>().value(row), limits),
        DataType::LargeBinary => bytes(column.as_binary::<i64>().value(row), limits),
        DataType::List(_) => list(&column.as_list::<i32>().value(row), limits),
        DataType::LargeList(_) => list(&column.as_list::<i64>().value(row), limits),
        DataType::FixedSizeList(..) => list(&column.as_fixed_size_list().value(row), limits),
        DataType::Struct(fields) => {
            let parts = fields.iter().zip(column.as_struct().columns());
            Value::Object(parts.map(|(field, part)| (field.name().clone(), cell_as_json(part, row, limits))).collect())
        }
        DataType::Map(..) => map(&column.as_map().value(row), limits),
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            cell_as_json(dictionary.values(), dictionary.normalized_keys()[row], limits)
        }
        _ => text_of(column, row).map_or(Value::Null, |shown| text(&shown, limits)),
    }
}

/// Returns an f32 as the f64 with the same shortest text, so 0.1 stays 0.1.
fn single(value: f32) -> Value {
    value.to_string().parse().ok().and_then(Number::from_f64).map_or(Value::Null, Value::Number)
}

fn text(value: &str, limits: CellLimits) -> Value {
    match value.char_indices().nth(limits.text) {
        Some(_) => value.chars().take(limits.text.saturating_sub(1)).chain(['…']).collect::<String>().into(),
        None => value.into(),
    }
}

fn bytes(value: &[u8], limits: CellLimits) -> Value {
    let shown = value.iter().take(limits.text / 2 + 1).map(|b| format!("{b:02x}")).collect::<String>();
    text(&shown, limits)
}

fn list(items: &dyn Array, limits: CellLimits) -> Value {
    let mut shown: Vec<_> = (0..items.len().min(limits.items)).map(|i| cell_as_json(items, i, limits)).collect();
    if items.len() > limits.items {
        shown.push("…".into());
    }
    shown.into()
}

fn map(entries: &arrow_array::StructArray, limits: CellLimits) -> Value {
    let (keys, values) = (entries.column(0), entries.column(1));
    let key = |i| match cell_as_json(keys, i, CellLimits::NONE) {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let mut shown: Map<_, _> =
        (0..entries.len().min(limits.items)).map(|i| (key(i), cell_as_json(values, i, limits))).collect();
    if entries.len() > limits.items {
        shown.insert("…".into(), Value::Null);
    }
    shown.into()
}
