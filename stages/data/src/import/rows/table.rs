//! Reads files by columns: Parquet, and JSON objects of lists.

use super::bytes::too_large;
use super::decoded::decoded_bytes;
use super::{RawRow, RowContent, RowIter};
use serde_json::{Map, Value};
use std::path::Path;
use std::sync::Arc;
use trainyard_core::Result;
use trainyard_core::units::format_size;
use trainyard_tables::BatchReader;

/// Keys whose value contains the rows of an object, as exporters write them.
const WRAPPERS: [&str; 4] = ["data", "examples", "rows", "train"];
/// Columns whose cells are lists of objects: an object with such a list is one row.
const LISTS: [&str; 8] =
    ["chosen", "completion", "conversation", "conversations", "messages", "prompt", "rejected", "tools"];

/// Returns the rows of a Parquet file, with an error after `max_bytes` decoded bytes. Errors: data, if it is damaged.
pub fn cells(path: &Path, max_bytes: u64) -> Result<RowIter> {
    let (mut before, mut bytes) = (0, 0);
    let file = path.to_path_buf();
    Ok(Box::new(BatchReader::open(path)?.flat_map(move |batch| -> RowIter {
        match batch {
            Ok(batch) => {
                bytes += batch.columns().iter().map(|column| decoded_bytes(column)).sum::<u64>();
                if bytes > max_bytes {
                    let reason = format!("more than {} of decoded rows", format_size(max_bytes));
                    return Box::new(std::iter::once(Err(too_large(&file, reason))));
                }
                let (first, batch) = (before, Arc::new(batch));
                before += batch.num_rows();
                Box::new(
                    (0..batch.num_rows())
                        .map(move |i| Ok(RawRow { line: first + i + 1, content: RowContent::Cells(batch.clone(), i) })),
                )
            }
            Err(e) => Box::new(std::iter::once(Err(e))),
        }
    })))
}

/// The rows of a JSON object.
pub struct JsonObjectReader {
    rows: Box<dyn Iterator<Item = Map<String, Value>> + Send>,
    line: usize,
}

impl JsonObjectReader {
    /// Reads an object: one of lists of equal length is a table of columns, one with a list of objects under `data`,
    /// `rows`, `examples` or `train` contains rows, and any other is a row.
    pub fn new(mut object: Map<String, Value>) -> Self {
        let rows: Box<dyn Iterator<Item = Map<String, Value>> + Send> = if let Some(items) = wrapped(&mut object) {
            Box::new(items.into_iter().map(|item| match item {
                Value::Object(row) => row,
                other => Map::from_iter([("value".to_string(), other)]),
            }))
        } else if is_table(&object) {
            let length = object.values().next().and_then(Value::as_array).map_or(0, Vec::len);
            let mut columns: Vec<(String, std::vec::IntoIter<Value>)> = object
                .into_iter()
                .map(|(name, list)| {
                    let Value::Array(items) = list else { return (name, Vec::new().into_iter()) };
                    (name, items.into_iter())
                })
                .collect();
            Box::new((0..length).map(move |_| {
                columns.iter_mut().filter_map(|(name, items)| Some((name.clone(), items.next()?))).collect()
            }))
        } else {
            Box::new(std::iter::once(object))
        };
        Self { rows, line: 0 }
    }
}

fn wrapped(object: &mut Map<String, Value>) -> Option<Vec<Value>> {
    let holds_rows = |value: &Value| value.as_array().is_some_and(|items| items.iter().all(Value::is_object));
    let key = WRAPPERS.into_iter().find(|key| object.get(*key).is_some_and(holds_rows))?;
    match object.remove(key) {
        Some(Value::Array(items)) => Some(items),
        _ => None,
    }
}

fn is_table(object: &Map<String, Value>) -> bool {
    let mut lengths = object.values().map(|value| value.as_array().map(Vec::len));
    let Some(Some(length)) = lengths.next() else { return false };
    let is_cell =
        |name: &str| object.get(name).and_then(Value::as_array).is_some_and(|items| items.iter().any(Value::is_object));
    lengths.all(|other| other == Some(length)) && !LISTS.into_iter().any(is_cell)
}

impl Iterator for JsonObjectReader {
    type Item = Result<RawRow>;

    fn next(&mut self) -> Option<Self::Item> {
        self.line += 1;
        self.rows.next().map(|row| Ok(RawRow { line: self.line, content: RowContent::Parsed(row) }))
    }
}
