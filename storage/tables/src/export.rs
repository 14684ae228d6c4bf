//! Exports tables for other programs as CSV (RFC 4180) and JSON Lines.
//!
//! CSV has one header line; nested cells are JSON text, nulls are empty, and an empty text is `""`. JSON Lines has one
//! object per row. Tables are read batch by batch; the memory is that of one batch.

use crate::groups::{BatchBounds, GroupReader};
use crate::json::{CellLimits, cell_as_json, row_as_json};
use serde_json::Value;
use std::io::{self, Write};
use std::path::Path;
use trainyard_core::{Error, Result};

const BOUNDS: BatchBounds = BatchBounds { rows: 1024, bytes: 32 << 20 };

/// Writes a table as CSV, or some of its columns. Returns the number of rows. Errors: those of reading; retryable, if
/// `out` rejects a write.
pub fn export_csv(path: &Path, columns: Option<&[String]>, out: &mut dyn Write) -> Result<u64> {
    let reader = GroupReader::open(path, columns, BOUNDS)?;
    let names: Vec<_> = reader.schema().fields().iter().map(|field| quoted(field.name())).collect();
    writeln!(out, "{}", names.join(",")).map_err(|e| export_error(path, &e))?;
    let mut rows = 0;
    for batch in reader {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            let cells: Vec<_> =
                batch.columns().iter().map(|column| csv_cell(cell_as_json(column, row, CellLimits::NONE))).collect();
            writeln!(out, "{}", cells.join(",")).map_err(|e| export_error(path, &e))?;
            rows += 1;
        }
    }
    Ok(rows)
}

/// Writes a table as JSON Lines, or some of its columns. Returns the number of rows. Errors: those of [`export_csv`].
pub fn export_jsonl(path: &Path, columns: Option<&[String]>, out: &mut dyn Write) -> Result<u64> {
    let mut rows = 0;
    for batch in GroupReader::open(path, columns, BOUNDS)? {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            writeln!(out, "{}", row_as_json(&batch, row, CellLimits::NONE)).map_err(|e| export_error(path, &e))?;
            rows += 1;
        }
    }
    Ok(rows)
}

fn csv_cell(cell: Value) -> String {
    match cell {
        Value::Null => String::new(),
        Value::String(text) => quoted(&text),
        nested @ (Value::Array(_) | Value::Object(_)) => quoted(&nested.to_string()),
        other => other.to_string(),
    }
}

fn quoted(text: &str) -> String {
    let plain = !text.is_empty() && !text.contains([',', '"', '\n', '\r']) && text.trim() == text;
    if plain { text.to_string() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

fn export_error(path: &Path, error: &io::Error) -> Error {
    Error::retryable(format!("the export of {} stopped: {error}", path.display()))
}
