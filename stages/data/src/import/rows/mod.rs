//! Reads the rows of files: JSON Lines, lists, tables of columns, CSV, Parquet and text, optionally compressed with
//! gzip or Zstandard. Memory contains one row at a time, except for Parquet, which is read in batches, and for an
//! object of columns, whose rows are complete only at its end.
//!
//! [`RowContent::columns`] returns the error of a row, which affects only that row. An error of the iterator means
//! damage after which reading cannot continue.

mod bytes;
mod decoded;
mod delimited;
pub mod files;
mod limited;
mod lines;
mod list;
mod open;
pub mod remote;
mod table;

pub use delimited::TextCells;
pub use open::{DELIMITED_ENDINGS, ENDINGS, open};

use arrow_array::RecordBatch;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::sync::Arc;
use trainyard_tables::json::{CellLimits, row_as_json};

/// Default maximum bytes of a file after decompression.
pub const MAX_FILE_BYTES: u64 = 16 << 30;
/// Maximum bytes of a row. A longer one is skipped and reported.
const MOST_BYTES: usize = 256 << 20;

/// The rows of a file, in order.
pub type RowIter = Box<dyn Iterator<Item = trainyard_core::Result<RawRow>> + Send>;

/// A row that is not parsed yet.
pub struct RawRow {
    /// Line, or number in a list or a Parquet file, from 1.
    pub line: usize,
    /// Columns, in any form.
    pub content: RowContent,
}

/// Content of one row in a file, not parsed yet.
pub enum RowContent {
    /// JSON text of an object.
    Json(Vec<u8>),
    /// A line of a text file: the column `text`.
    Text(Vec<u8>),
    /// Cells of a file of separated cells.
    TextCells(TextCells),
    /// A parsed object.
    Parsed(Map<String, Value>),
    /// A row of a batch.
    Cells(Arc<RecordBatch>, usize),
    /// No row, with the reason.
    Unreadable(String),
}

impl RowContent {
    /// Returns the approximate size in bytes; cells belong to a batch that is in memory anyway.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Json(bytes) | Self::Text(bytes) => bytes.len(),
            Self::TextCells(cells) => cells.bytes(),
            Self::Parsed(_) | Self::Cells(..) | Self::Unreadable(_) => 256,
        }
    }
    /// Returns the names of the row's columns, also of those that are empty in this row; none of an unreadable row.
    pub fn names(self) -> Vec<String> {
        match self {
            Self::TextCells(cells) => cells.names().cloned().collect(),
            other => other.columns().unwrap_or_default().into_iter().map(|(name, _)| name).collect(),
        }
    }
    /// Returns the columns of the row, or the reason why it has no columns.
    pub fn columns(self) -> Result<Map<String, Value>, String> {
        match self {
            Self::Json(bytes) => object(&bytes),
            Self::Text(bytes) => Ok(Map::from_iter([("text".to_string(), Value::from(text(&bytes)?))])),
            Self::TextCells(cells) => cells.columns(),
            Self::Parsed(columns) => Ok(columns),
            Self::Cells(batch, row) => match without_nulls(row_as_json(&batch, row, CellLimits::NONE)) {
                Value::Object(columns) => Ok(columns),
                _ => Err("not an object".into()),
            },
            Self::Unreadable(reason) => Err(reason),
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

/// Tool descriptions of a row as JSON text. They stay text, because parsed maps sort their keys and a template shows
/// the descriptions to the model.
#[derive(Deserialize)]
struct RawTools<'t> {
    #[serde(borrow)]
    tools: Option<&'t RawValue>,
    #[serde(borrow)]
    functions: Option<&'t RawValue>,
}

fn with_tools_as_text(mut columns: Map<String, Value>, text: &str) -> Map<String, Value> {
    if !["tools", "functions"].iter().any(|key| columns.get(*key).is_some_and(Value::is_array)) {
        return columns;
    }
    // Parsing fails for a row with a duplicate key. Its tools then stay parsed, with sorted keys.
    if let Ok(RawTools { tools, functions }) = serde_json::from_str(text) {
        for (key, raw) in [("tools", tools), ("functions", functions)] {
            if let (Some(cell @ Value::Array(_)), Some(raw)) = (columns.get_mut(key), raw) {
                *cell = Value::from(raw.get());
            }
        }
    }
    columns
}

/// Removes null fields. A Parquet struct has all fields in all rows, so the arguments of each tool call include the
/// fields of all other calls.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let present = map.into_iter().filter(|(_, v)| !v.is_null());
            Value::Object(present.map(|(key, v)| (key, without_nulls(v))).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
