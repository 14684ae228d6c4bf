//! Rows of files, as they lie there: JSON Lines, lists, tables of columns, Parquet and text, gzip and Zstandard around
//! them. Nothing but a row is held at a time, except for an object of columns, which has no rows until its end.
//!
//! What is wrong with a row is told by [`Content::columns`] and costs this row; an error of the iterator is damage that
//! leaves nothing to go on with.

mod bytes;
pub mod files;
mod lines;
mod list;
mod open;
pub mod remote;
mod table;

pub use open::{ENDINGS, open};

use arrow_array::RecordBatch;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::sync::Arc;
use trainyard_tables::json::{Cut, row_as_json};

/// Bytes that a row may have. A longer one is skipped and told.
const MOST_BYTES: usize = 256 << 20;

/// The rows of a file, in order.
pub type Rows = Box<dyn Iterator<Item = trainyard_core::Result<RawRow>> + Send>;

/// A row that is not parsed yet.
pub struct RawRow {
    /// Its line, or its number in a list or a Parquet file, from 1.
    pub line: usize,
    /// Its columns, in whichever form.
    pub content: Content,
}

/// What a file holds at the place of a row.
pub enum Content {
    /// JSON text of an object.
    Json(Vec<u8>),
    /// A line of a text file: the column `text`.
    Text(Vec<u8>),
    /// A parsed object.
    Parsed(Map<String, Value>),
    /// A row of a batch.
    Cells(Arc<RecordBatch>, usize),
    /// Nothing that could be a row, and why.
    Unreadable(String),
}

impl Content {
    /// Its size in bytes, roughly; cells belong to a batch that is there anyway.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Json(bytes) | Self::Text(bytes) => bytes.len(),
            Self::Parsed(_) | Self::Cells(..) | Self::Unreadable(_) => 256,
        }
    }
    /// The columns of the row, or why there are none.
    pub fn columns(self) -> Result<Map<String, Value>, String> {
        match self {
            Self::Json(bytes) => object(&bytes),
            Self::Text(bytes) => Ok(Map::from_iter([("text".to_string(), Value::from(text(&bytes)?))])),
            Self::Parsed(columns) => Ok(columns),
            Self::Cells(batch, row) => match without_nulls(row_as_json(&batch, row, Cut::NONE)) {
                Value::Object(columns) => Ok(columns),
                _ => Err("not an object".into()),
            },
            Self::Unreadable(why) => Err(why),
        }
    }
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    std::str::from_utf8(bytes).map_err(|e| format!("not UTF-8 (see byte {} of the row)", e.valid_up_to() + 1))
}

fn object(bytes: &[u8]) -> Result<Map<String, Value>, String> {
    let text = text(bytes)?;
    match serde_json::from_str(text) {
        Ok(Value::Object(columns)) => Ok(with_tools_as_text(columns, text)),
        Ok(_) => Err("not a JSON object".into()),
        Err(e) if e.is_eof() => Err(format!("{e}; the file may be cut off")),
        Err(e) => Err(e.to_string()),
    }
}

/// Descriptions of tools stay text: parsed maps sort their keys, and a template shows them to the model.
#[derive(Deserialize)]
struct Offered<'t> {
    #[serde(borrow)]
    tools: Option<&'t RawValue>,
    #[serde(borrow)]
    functions: Option<&'t RawValue>,
}

fn with_tools_as_text(mut columns: Map<String, Value>, text: &str) -> Map<String, Value> {
    if !["tools", "functions"].iter().any(|key| columns.get(*key).is_some_and(Value::is_array)) {
        return columns;
    }
    // A row with one of them twice is refused here; its maps stay sorted.
    if let Ok(Offered { tools, functions }) = serde_json::from_str(text) {
        for (key, raw) in [("tools", tools), ("functions", functions)] {
            if let (Some(cell @ Value::Array(_)), Some(raw)) = (columns.get_mut(key), raw) {
                *cell = Value::from(raw.get());
            }
        }
    }
    columns
}

/// Leaves out null fields: a Parquet struct has all fields in all rows, so that the arguments of one tool call have
/// those of every other.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let whole = map.into_iter().filter(|(_, v)| !v.is_null());
            Value::Object(whole.map(|(key, v)| (key, without_nulls(v))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
