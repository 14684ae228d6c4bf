//! Writes [`OrderedValue`] rows as Parquet. Every column gets the narrowest type that holds all of its values. Verbatim
//! JSON text stays text, since arguments of different tools have no common type. The types are known only after all
//! rows, so a stream of rows is read twice: [`OrderedRowTypes`], then [`OrderedRowWriter`].

use crate::file::BatchWriter;
use crate::ordered::OrderedValue;
use crate::schema::optional;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, ListArray, RecordBatch, RecordBatchOptions, StringArray,
    StructArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields, Schema};
use std::path::Path;
use std::sync::Arc;
use trainyard_core::{Error, Result};

/// Rows that become one batch.
const ROWS: usize = 256;

/// Common type of the values seen so far.
#[derive(Debug, Clone, PartialEq)]
enum OrderedType {
    Null,
    Bool,
    Int,
    Float,
    Text,
    List(Box<OrderedType>),
    Object(Vec<(String, OrderedType)>),
}

/// Types of the columns of rows, from the values of all of them.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderedRowTypes(OrderedType);

impl Default for OrderedRowTypes {
    fn default() -> Self {
        Self(OrderedType::Object(Vec::new()))
    }
}

impl OrderedRowTypes {
    /// Takes the values of a row into account. Errors: data, if the values of a key have no common type.
    pub fn add(&mut self, row: &OrderedValue) -> Result<()> {
        let known = std::mem::replace(&mut self.0, OrderedType::Null);
        self.0 = known.and(OrderedType::of(row, "")?, "")?;
        Ok(())
    }
    fn into_columns(self) -> Result<Vec<(String, OrderedType)>> {
        match self.0 {
            OrderedType::Object(columns) => Ok(columns),
            _ => Err(Error::bug("a row is not an object")),
        }
    }
}

/// Writes rows of known types as Parquet. A key that a row lacks is null there. The memory is that of one row group.
pub struct OrderedRowWriter {
    columns: Vec<(String, OrderedType)>,
    writer: BatchWriter,
    pending: Vec<OrderedValue>,
}

impl OrderedRowWriter {
    /// Creates the file. Errors: those of the disk.
    pub fn create(path: &Path, types: OrderedRowTypes) -> Result<Self> {
        let columns = types.into_columns()?;
        let writer = BatchWriter::create(path, Arc::new(Schema::new(fields(&columns))))?;
        Ok(Self { columns, writer, pending: Vec::new() })
    }
    /// Appends a row, whose values the types take into account. Errors: those of the disk.
    pub fn write(&mut self, row: OrderedValue) -> Result<()> {
        self.pending.push(row);
        if self.pending.len() < ROWS { Ok(()) } else { self.write_pending() }
    }
    /// Writes the footer. Returns the number of rows.
    pub fn finish(mut self) -> Result<u64> {
        self.write_pending()?;
        self.writer.finish()
    }

    fn write_pending(&mut self) -> Result<()> {
        let rows = std::mem::take(&mut self.pending);
        self.writer.write(&batch(&self.columns, &rows)?)
    }
}

/// Writes rows as Parquet. Errors: data, if the values of a key have no common type; those of the disk.
pub fn write_parquet(path: &Path, rows: &[OrderedValue]) -> Result<u64> {
    let mut types = OrderedRowTypes::default();
    rows.iter().try_for_each(|row| types.add(row))?;
    let mut writer = OrderedRowWriter::create(path, types)?;
    rows.iter().try_for_each(|row| writer.write(row.clone()))?;
    writer.finish()
}

/// Returns rows as one batch.
fn batch(columns: &[(String, OrderedType)], rows: &[OrderedValue]) -> Result<RecordBatch> {
    let arrays = columns.iter().map(|(name, kind)| column(kind, &values(rows, name))).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields(columns))), arrays, &options)
        .map_err(|e| Error::bug(format!("rows do not fit the types inferred from them: {e}")))
}

fn values<'r>(rows: &'r [OrderedValue], key: &str) -> Vec<&'r OrderedValue> {
    rows.iter().map(|row| row.get(key).unwrap_or(&OrderedValue::Null)).collect()
}

impl OrderedType {
    /// Returns the type of a value; `at` is its position, for errors.
    fn of(value: &OrderedValue, at: &str) -> Result<Self> {
        Ok(match value {
            OrderedValue::Null => Self::Null,
            OrderedValue::Bool(_) => Self::Bool,
            OrderedValue::Int(_) => Self::Int,
            OrderedValue::Float(_) => Self::Float,
            OrderedValue::Text(_) | OrderedValue::RawJson(_) => Self::Text,
            OrderedValue::List(items) => {
                let all = |kind: Self, item: &OrderedValue| kind.and(Self::of(item, at)?, at);
                Self::List(Box::new(items.iter().try_fold(Self::Null, all)?))
            }
            OrderedValue::Object(keys) => {
                let typed =
                    |(key, value): &(String, OrderedValue)| Ok((key.clone(), Self::of(value, &place(at, key))?));
                Self::Object(keys.iter().map(typed).collect::<Result<_>>()?)
            }
        })
    }
    /// Returns the common type of both. Errors: data, with the position `at`.
    fn and(self, other: Self, at: &str) -> Result<Self> {
        Ok(match (self, other) {
            (Self::Null, kind) | (kind, Self::Null) => kind,
            (Self::Int, Self::Float) | (Self::Float, Self::Int) => Self::Float,
            (Self::List(a), Self::List(b)) => Self::List(Box::new(a.and(*b, at)?)),
            (Self::Object(mut keys), Self::Object(more)) => {
                for (key, kind) in more {
                    match keys.iter_mut().find(|(known, _)| *known == key) {
                        Some((_, known)) => *known = known.clone().and(kind, &place(at, &key))?,
                        None => keys.push((key, kind)),
                    }
                }
                Self::Object(keys)
            }
            (a, b) if a == b => a,
            (a, b) => {
                let message = format!("the values of `{at}` are {} and {}", a.name(), b.name());
                return Err(Error::data(message).help("write a file that ends in .jsonl, whose rows may differ"));
            }
        })
    }
    fn name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "booleans",
            Self::Int | Self::Float => "numbers",
            Self::Text => "texts",
            Self::List(_) => "lists",
            Self::Object(_) => "objects",
        }
    }
    fn arrow(&self) -> DataType {
        match self {
            // Many readers fail on columns of the null type.
            Self::Null => DataType::Utf8,
            Self::Bool => DataType::Boolean,
            Self::Int => DataType::Int64,
            Self::Float => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::List(item) => DataType::List(Arc::new(Field::new_list_field(item.arrow(), true))),
            // Parquet has no object without a key; it becomes null.
            Self::Object(keys) if keys.is_empty() => DataType::Utf8,
            Self::Object(keys) => DataType::Struct(fields(keys)),
        }
    }
}

fn fields(keys: &[(String, OrderedType)]) -> Fields {
    keys.iter().map(|(name, kind)| optional(name, kind.arrow())).collect()
}

fn place(at: &str, key: &str) -> String {
    if at.is_empty() { key.to_string() } else { format!("{at}.{key}") }
}

/// Builds a column of values of one type, or null.
fn column(kind: &OrderedType, values: &[&OrderedValue]) -> Result<ArrayRef> {
    Ok(match kind {
        OrderedType::Null => Arc::new(StringArray::new_null(values.len())),
        OrderedType::Bool => {
            let value = |value: &&OrderedValue| if let OrderedValue::Bool(value) = value { Some(*value) } else { None };
            Arc::new(values.iter().map(value).collect::<BooleanArray>())
        }
        OrderedType::Int => {
            let value = |value: &&OrderedValue| if let OrderedValue::Int(value) = value { Some(*value) } else { None };
            Arc::new(values.iter().map(value).collect::<Int64Array>())
        }
        OrderedType::Float => {
            let value = |value: &&OrderedValue| match value {
                OrderedValue::Float(value) => Some(*value),
                OrderedValue::Int(value) => Some(*value as f64),
                _ => None,
            };
            Arc::new(values.iter().map(value).collect::<Float64Array>())
        }
        OrderedType::Text => {
            let texts = values.iter().map(|value| match value {
                OrderedValue::Text(text) | OrderedValue::RawJson(text) => Some(text.as_str()),
                _ => None,
            });
            Arc::new(texts.collect::<StringArray>())
        }
        OrderedType::List(item) => lists(item, values)?,
        OrderedType::Object(keys) if keys.is_empty() => Arc::new(StringArray::new_null(values.len())),
        OrderedType::Object(keys) => objects(keys, values)?,
    })
}

fn lists<'v>(item: &OrderedType, values: &[&'v OrderedValue]) -> Result<ArrayRef> {
    let items =
        |value: &'v OrderedValue| if let OrderedValue::List(items) = value { Some(items.as_slice()) } else { None };
    let rows: Vec<Option<&'v [OrderedValue]>> = values.iter().copied().map(items).collect();
    let all: Vec<&OrderedValue> = rows.iter().flatten().flat_map(|items| items.iter()).collect();
    let field = Arc::new(Field::new_list_field(item.arrow(), true));
    let offsets = OffsetBuffer::from_lengths(rows.iter().map(|row| row.map_or(0, <[_]>::len)));
    let valid: NullBuffer = rows.iter().map(Option::is_some).collect();
    let list = ListArray::try_new(field, offsets, column(item, &all)?, Some(valid));
    Ok(Arc::new(list.map_err(|e| Error::bug(format!("a list has no Arrow form: {e}")))?))
}

fn objects(keys: &[(String, OrderedType)], values: &[&OrderedValue]) -> Result<ArrayRef> {
    let part = |(name, kind): &(String, OrderedType)| {
        let cells: Vec<&OrderedValue> =
            values.iter().map(|value| value.get(name).unwrap_or(&OrderedValue::Null)).collect();
        column(kind, &cells)
    };
    let parts = keys.iter().map(part).collect::<Result<Vec<_>>>()?;
    let valid: NullBuffer = values.iter().map(|value| matches!(value, OrderedValue::Object(_))).collect();
    let structs = StructArray::try_new(fields(keys), parts, Some(valid));
    Ok(Arc::new(structs.map_err(|e| Error::bug(format!("an object has no Arrow form: {e}")))?))
}

#[cfg(test)]
mod tests {
    use super::write_parquet;
    use crate::ordered::{OrderedValue, write_line};
    use crate::rows_as_json;
    use serde_json::json;

    fn text(text: &str) -> OrderedValue {
        OrderedValue::from(text)
    }

    #[test]
    fn lines_keep_the_order_of_keys_and_what_was_written() {
        let arguments = OrderedValue::raw_json(r#"{"b": 1, "a": [2]}"#).unwrap();
        let row = OrderedValue::object([("z", text("é\n")), ("a", arguments)]).with("n", Some(OrderedValue::Null));
        let mut out = Vec::new();
        write_line(&row.with("none", None), &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "{\"z\":\"é\\n\",\"a\":{\"b\": 1, \"a\": [2]},\"n\":null}\n");
        assert!(OrderedValue::raw_json("{").is_err());
    }

    #[test]
    fn parquet_has_a_column_for_every_key_of_any_row() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        let call = OrderedValue::object([("arguments", OrderedValue::raw_json(r#"{"x": 1}"#).unwrap())]);
        let messages = |calls: Vec<OrderedValue>| {
            OrderedValue::object([("role", text("user"))]).with("calls", Some(OrderedValue::List(calls)))
        };
        let rows = [
            OrderedValue::object([
                ("id", OrderedValue::Int(1)),
                ("messages", OrderedValue::List(vec![messages(vec![])])),
            ]),
            OrderedValue::object([
                (
                    "messages",
                    OrderedValue::List(vec![messages(vec![call]), OrderedValue::object([("role", text("tool"))])]),
                ),
                ("extra", OrderedValue::object([("score", OrderedValue::Float(0.5)), ("none", OrderedValue::Null)])),
                ("id", OrderedValue::Float(2.5)),
            ]),
        ];
        assert_eq!(write_parquet(&path, &rows).unwrap(), 2);
        let read = rows_as_json(&path, 0, 9).unwrap();
        assert_eq!(read[0], json!({"id": 1.0, "messages": [{"role": "user", "calls": []}], "extra": null}));
        assert_eq!(read[1]["messages"][0]["calls"], json!([{"arguments": "{\"x\": 1}"}]));
        assert_eq!(read[1]["messages"][1], json!({"role": "tool", "calls": null}));
        assert_eq!(read[1]["extra"], json!({"score": 0.5, "none": null}));
    }

    #[test]
    fn values_without_a_common_type_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let row = |value: OrderedValue| OrderedValue::object([("a", OrderedValue::object([("b", value)]))]);
        let error = write_parquet(&folder.path().join("t"), &[row(OrderedValue::Int(1)), row(text("1"))]).unwrap_err();
        assert_eq!(error.message, "the values of `a.b` are numbers and texts");
    }
}
