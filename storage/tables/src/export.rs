//! Exports tables for other programs as CSV (RFC 4180) and JSON Lines.
//!
//! CSV has one header line; nested cells are JSON text, nulls are empty, and an empty text is `""`. Text that a
//! spreadsheet would run as a formula is escaped on request. JSON Lines has one object per row. Tables are read batch
//! by batch; the memory is that of one batch.

use crate::groups::{BatchBounds, GroupReader};
use crate::json::{CellLimits, cell_as_json, row_as_json};
use serde_json::Value;
use std::io::{self, Write};
use std::path::Path;
use trainyard_core::{Error, Result};

const BOUNDS: BatchBounds = BatchBounds { rows: 1024, bytes: 32 << 20 };

/// First characters of text that spreadsheets read as a formula.
const FORMULA_STARTS: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// Form of text in CSV that a spreadsheet would run as a formula.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CsvFormulas {
    /// `'` comes first, so the text is shown as it is. Numbers are no formulas: `-5` stays.
    #[default]
    Escaped,
    /// All text is written unchanged.
    Unchanged,
}

/// Writes a table as CSV, or some of its columns. Returns the number of rows. Errors: those of reading; retryable, if
/// `out` rejects a write.
pub fn export_csv(path: &Path, columns: Option<&[String]>, formulas: CsvFormulas, out: &mut dyn Write) -> Result<u64> {
    let reader = GroupReader::open(path, columns, BOUNDS)?;
    let names: Vec<_> = reader.schema().fields().iter().map(|field| csv_text(field.name(), formulas)).collect();
    writeln!(out, "{}", names.join(",")).map_err(|e| export_error(path, &e))?;
    let mut rows = 0;
    for batch in reader {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            let cells = batch.columns().iter().map(|column| cell_as_json(column, row, CellLimits::NONE));
            let cells: Vec<_> = cells.map(|cell| csv_cell(cell, formulas)).collect();
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

fn csv_cell(cell: Value, formulas: CsvFormulas) -> String {
    match cell {
        Value::Null => String::new(),
        Value::String(text) => csv_text(&text, formulas),
        nested @ (Value::Array(_) | Value::Object(_)) => quoted(&nested.to_string()),
        other => other.to_string(),
    }
}

fn csv_text(text: &str, formulas: CsvFormulas) -> String {
    if formulas == CsvFormulas::Escaped && is_formula(text) { quoted(&format!("'{text}")) } else { quoted(text) }
}

/// Returns whether a spreadsheet would run a text: it begins like a formula and is no number.
fn is_formula(text: &str) -> bool {
    text.starts_with(FORMULA_STARTS) && !is_number(text)
}

/// Returns whether a text is a number in digits, such as `-5` or `+0.25`.
fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_plain = digits.starts_with(|c: char| c.is_ascii_digit()) && !digits.ends_with('.');
    is_plain && digits.chars().all(|c| c.is_ascii_digit() || c == '.') && digits.matches('.').count() <= 1
}

fn quoted(text: &str) -> String {
    let plain = !text.is_empty() && !text.contains([',', '"', '\n', '\r']) && text.trim() == text;
    if plain { text.to_string() } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

fn export_error(path: &Path, error: &io::Error) -> Error {
    Error::retryable(format!("the export of {} stopped: {error}", path.display()))
}
