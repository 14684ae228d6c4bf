//! The result of a query, as JSON and as aligned text.

use polars::prelude::{AnyValue, DataFrame, DataType};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use std::fmt;
use trainyard_core::Result;

/// Number of characters of a cell in the text table.
const CELL: usize = 60;

/// A column of a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultColumn {
    /// Its name.
    pub name: String,
    /// `int`, `float`, `string`, `bool`, or Polars' name of a rarer type.
    pub r#type: String,
}

/// The rows that a query returned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueryResult {
    /// The columns in order.
    pub columns: Vec<ResultColumn>,
    /// The rows: one cell for each column.
    pub rows: Vec<Vec<Value>>,
    /// Whether there were more rows than the limit.
    pub truncated: bool,
}

impl QueryResult {
    pub(crate) fn new(frame: &DataFrame, limit: usize) -> Result<Self> {
        let columns =
            frame.columns().iter().map(|c| ResultColumn { name: c.name().to_string(), r#type: type_name(c.dtype()) });
        let rows = frame.height().min(limit);
        let cell =
            |column: &polars::prelude::Column, row| column.get(row).map_or(Value::Null, |value| cell_value(&value));
        let cells = (0..rows).map(|row| frame.columns().iter().map(|column| cell(column, row)).collect());
        Ok(Self { columns: columns.collect(), rows: cells.collect(), truncated: frame.height() > limit })
    }
    /// One JSON object for each row.
    pub fn objects(&self) -> Vec<Value> {
        let object = |row: &Vec<Value>| {
            self.columns.iter().map(|c| c.name.clone()).zip(row.iter().cloned()).collect::<Map<_, _>>()
        };
        self.rows.iter().map(|row| Value::Object(object(row))).collect()
    }
}

fn type_name(kind: &DataType) -> String {
    match kind {
        DataType::String => "string".into(),
        DataType::Boolean => "bool".into(),
        kind if kind.is_integer() => "int".into(),
        kind if kind.is_float() => "float".into(),
        kind => kind.to_string(),
    }
}

fn cell_value(value: &AnyValue<'_>) -> Value {
    match value {
        AnyValue::Null => Value::Null,
        AnyValue::Boolean(value) => (*value).into(),
        AnyValue::String(text) => (*text).into(),
        AnyValue::StringOwned(text) => text.as_str().into(),
        AnyValue::UInt32(value) => (*value).into(),
        AnyValue::UInt64(value) => (*value).into(),
        AnyValue::Int32(value) => (*value).into(),
        AnyValue::Int64(value) => (*value).into(),
        AnyValue::Float64(value) => (*value).into(),
        AnyValue::Float32(value) => {
            value.to_string().parse().ok().and_then(Number::from_f64).map_or(Value::Null, Value::Number)
        }
        AnyValue::List(items) => items.iter().map(|item| cell_value(&item)).collect(),
        other => other.to_string().into(),
    }
}

impl fmt::Display for QueryResult {
    /// Names, a rule, and rows with numbers aligned right. The last line says how many rows there are.
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

/// At most six digits after the point without trailing zeros; very small and very large numbers with an exponent.
fn short_float(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e15).contains(&size) {
        return format!("{value:.4e}");
    }
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0');
    if text.ends_with('.') { format!("{text}0") } else { text.to_string() }
}
