//! Reads the ids and the text of one row.

use super::{MAX_TEXT, SHOWN};
use serde_json::{Map, Value};
use trainyard_core::{Error, Result};
use trainyard_tables::json::{CellLimits, row_as_json};
use trainyard_tables::{BatchReader, ReadSlice, TableSource, part_as_json};

/// Columns of [`SHOWN`] that a row has.
#[derive(Debug, Clone, Default)]
pub struct LinkedRow(pub(super) Map<String, Value>);

impl LinkedRow {
    /// Reads a row. Errors: invalid (no such row), those of reading the table.
    pub fn read(table: &TableSource, row: usize) -> Result<Self> {
        let columns = SHOWN.map(str::to_string);
        let part = ReadSlice { offset: row, limit: Some(1), columns: Some(&columns) };
        let mut reader = BatchReader::open_part(table, &part)?;
        let rows = reader.rows();
        let missing = || {
            Error::invalid(format!("there is no row {row}: the table has {rows} rows")).help("rows are counted from 0")
        };
        let batch = reader.next().transpose()?.filter(|batch| batch.num_rows() > 0).ok_or_else(missing)?;
        match row_as_json(&batch, 0, CellLimits::NONE) {
            Value::Object(cells) => Ok(Self(cells)),
            _ => Err(missing()),
        }
    }
    /// Reads all rows. Errors: those of reading the table.
    pub fn read_all(table: &TableSource) -> Result<Vec<Self>> {
        let columns = SHOWN.map(str::to_string);
        let rows = part_as_json(table, &ReadSlice { columns: Some(&columns), ..ReadSlice::default() })?;
        let cells = |row| if let Value::Object(cells) = row { cells } else { Map::new() };
        Ok(rows.into_iter().map(|row| Self(cells(row))).collect())
    }
    /// Returns a column of text that is not empty.
    pub fn text(&self, column: &str) -> Option<&str> {
        self.0.get(column)?.as_str().filter(|text| !text.is_empty())
    }
    /// Returns the ids of the rows that this one was made from.
    pub fn parents(&self) -> impl Iterator<Item = &str> {
        self.0.get("parents").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
    }
    /// Returns the ids of the rows that a pack of tokens consists of, or that could not be read.
    pub fn packed(&self) -> impl Iterator<Item = &str> {
        let list = self.0.get("trajectories").and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).chain(self.text("trajectory"))
    }
    /// Returns the beginning of the last question, or else of the answer, on one line.
    pub fn excerpt(&self) -> Option<String> {
        let messages = self.0.get("messages").and_then(Value::as_array);
        let question = messages.and_then(|messages| messages.iter().rev().find(|message| message["role"] == "user"));
        let text = question.and_then(|message| message["content"].as_str()).or_else(|| self.text("answer"))?;
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_long = line.chars().count() > MAX_TEXT;
        Some(if is_long { line.chars().take(MAX_TEXT - 1).chain(['…']).collect() } else { line })
    }
}
