//! Holds the result of a query, and formats it as JSON and as aligned text.

use crate::flatten::CellKind;
use rusqlite::types::Value as Cell;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// Maximum characters of a cell in the text table.
const CELL: usize = 60;

/// A column of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultColumn {
    /// Name, as in the statement.
    pub name: String,
    /// `int`, `float`, `string`, `bool`, `list`, or `null` if all cells are null.
    pub r#type: String,
}

/// Result of a statement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueryResult {
    /// Columns, in the order of the statement.
    pub columns: Vec<ResultColumn>,
    /// Cells, in the order of the columns.
    pub rows: Vec<Vec<Value>>,
    /// Whether there were more rows than the limit.
    pub truncated: bool,
}

impl QueryResult {
    /// Builds a result. `kinds` are the kinds of cells that SQLite does not distinguish: booleans, lists.
    pub(crate) fn new(
        names: Vec<String>,
        kinds: Vec<Option<CellKind>>,
        cells: Vec<Vec<Cell>>,
        truncated: bool,
    ) -> Self {
        let kind = |i: usize, known: Option<CellKind>| known.or_else(|| observed(cells.iter().map(|row| &row[i])));
        let kinds: Vec<Option<CellKind>> = kinds.into_iter().enumerate().map(|(i, known)| kind(i, known)).collect();
        let column = |(name, kind): (String, &Option<CellKind>)| ResultColumn { name, r#type: type_name(*kind).into() };
        let columns = names.into_iter().zip(&kinds).map(column).collect();
        let row = |row: Vec<Cell>| row.into_iter().zip(&kinds).map(|(cell, kind)| value(cell, *kind)).collect();
        Self { columns, rows: cells.into_iter().map(row).collect(), truncated }
    }
    /// Returns one JSON object per row.
    pub fn objects(&self) -> Vec<Value> {
        let object = |row: &Vec<Value>| {
            self.columns.iter().map(|c| c.name.clone()).zip(row.iter().cloned()).collect::<Map<_, _>>()
        };
        self.rows.iter().map(|row| Value::Object(object(row))).collect()
    }
}

/// Returns the kind of computed cells; `None` if all are null.
fn observed<'c>(cells: impl Iterator<Item = &'c Cell>) -> Option<CellKind> {
    let mut found = None;
    for cell in cells {
        found = match (cell, found) {
            (Cell::Null, found) => found,
            (Cell::Text(_) | Cell::Blob(_), _) | (_, Some(CellKind::Text)) => Some(CellKind::Text),
            (Cell::Real(_), _) | (_, Some(CellKind::Float)) => Some(CellKind::Float),
            (Cell::Integer(_), _) => Some(CellKind::Int),
        };
    }
    found
}

fn type_name(kind: Option<CellKind>) -> &'static str {
    match kind {
        Some(CellKind::Bool) => "bool",
        Some(CellKind::Int | CellKind::Unsigned) => "int",
        Some(CellKind::Float) => "float",
        Some(CellKind::Text) => "string",
        Some(CellKind::List) => "list",
        None => "null",
    }
}

fn value(cell: Cell, kind: Option<CellKind>) -> Value {
    match (cell, kind) {
        (Cell::Null, _) => Value::Null,
        (Cell::Integer(value), Some(CellKind::Bool)) => (value != 0).into(),
        (Cell::Integer(value), Some(CellKind::Float)) => (value as f64).into(),
        (Cell::Integer(value), _) => value.into(),
        (Cell::Real(value), _) => value.into(),
        (Cell::Text(text), Some(CellKind::List)) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        (Cell::Text(text), Some(CellKind::Unsigned)) => text.parse::<u64>().map_or(Value::String(text), Value::from),
        (Cell::Text(text), _) => text.into(),
        (Cell::Blob(bytes), _) => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
    }
}

impl fmt::Display for QueryResult {
    /// Writes names, a rule and rows, with numbers aligned to the right, and a last line with the number of rows.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(shown).collect()).collect();
        let width = |i: usize| {
            cells
                .iter()
                .map(|row| row[i].chars().count())
                .chain([self.columns[i].name.chars().count()])
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<_> = (0..self.columns.len()).map(width).collect();
        let right: Vec<_> = self.columns.iter().map(|c| c.r#type == "int" || c.r#type == "float").collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let padded = cells.enumerate().map(|(i, cell)| {
                if right[i] {
                    format!("{cell:>width$}", width = widths[i])
                } else {
                    format!("{cell:<width$}", width = widths[i])
                }
            });
            padded.collect::<Vec<_>>().join("  ").trim_end().to_string()
        };
        writeln!(f, "{}", line(&mut self.columns.iter().map(|c| c.name.as_str())))?;
        writeln!(f, "{}", widths.iter().map(|w| "─".repeat(*w)).collect::<Vec<_>>().join("  "))?;
        for row in &cells {
            writeln!(f, "{}", line(&mut row.iter().map(String::as_str)))?;
        }
        let more = if self.truncated { ", more are cut off" } else { "" };
        write!(f, "({} row{}{more})", self.rows.len(), if self.rows.len() == 1 { "" } else { "s" })
    }
}

fn shown(cell: &Value) -> String {
    let text = match cell {
        Value::Null => "null".to_string(),
        Value::String(text) => text.replace(['\n', '\r', '\t'], " "),
        Value::Number(number) if number.is_f64() => number.as_f64().map_or_else(String::new, short_float),
        other => other.to_string(),
    };
    if text.chars().count() > CELL { text.chars().take(CELL - 1).chain(['…']).collect() } else { text }
}

/// Formats at most six decimal digits, without trailing zeros; very small and very large numbers with an exponent.
fn short_float(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e15).contains(&size) {
        return format!("{value:.4e}");
    }
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0');
    if text.ends_with('.') { format!("{text}0") } else { text.to_string() }
}
