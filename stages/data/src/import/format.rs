//! What a format is: a name, the outputs that it fills, and a function from a file to rows.

use crate::identity::{Half, half_of};
use crate::solutions::Solution;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};
use trainyard_tables::{Problem, Trajectory};

/// A file format of rows. One file each; a line in `registry.rs`.
pub trait Format: Send + Sync {
    fn name(&self) -> &'static str;
    /// One line for lists: what such a file holds.
    fn summary(&self) -> &'static str;
    /// Output ports that this format fills.
    fn yields(&self) -> &'static [&'static str];
    /// The file to read if `source` is a folder.
    fn file_name(&self, split: &str) -> String {
        format!("{split}.jsonl")
    }
    /// All rows that [`Reading`] asks for, in file order. A row that cannot be read is an error of kind data with its place.
    fn read(&self, file: &Path, reading: &Reading) -> Result<Imported>;
}

/// What to read and how to call it.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    pub split: String,
    pub half: Option<Half>,
    pub limit: Option<usize>,
    pub environment: Option<String>,
    /// The column `source` and the prefix of ids.
    pub name: String,
}

impl Reading {
    /// Whether a row about this question belongs to the wanted half.
    pub fn wants(&self, question: &str) -> bool {
        self.half.is_none_or(|half| half_of(question) == half)
    }
    /// Whether `count` rows are enough.
    pub fn is_full(&self, count: usize) -> bool {
        self.limit.is_some_and(|limit| count >= limit)
    }
    pub fn environment_or(&self, default: &str) -> String {
        self.environment.clone().unwrap_or_else(|| default.to_string())
    }
}

/// The rows of a file.
#[derive(Debug, Clone, Default)]
pub struct Imported {
    pub problems: Vec<Problem>,
    pub trajectories: Vec<Trajectory>,
    pub solutions: Vec<Solution>,
}

/// A JSON object with its line number, counted from 1.
pub type NumberedRow = (usize, Map<String, Value>);

/// The objects of a JSON Lines file (blank lines are skipped) or of one JSON list (numbered by item).
/// A broken line is an error of kind data: `file line N: …`.
pub fn read_objects(file: &Path) -> Result<Vec<NumberedRow>> {
    let bytes = std::fs::read(file).map_err(|e| io_error(file, &e))?;
    let text = std::str::from_utf8(&bytes).map_err(|e| {
        let line = bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
        Error::data(format!("{} line {line}: not UTF-8", file.display()))
    })?;
    // A list of objects; a line that begins with `[` further down is a broken line.
    if text.trim_start().starts_with('[') {
        let items: Vec<Map<String, Value>> = serde_json::from_str(text)
            .map_err(|e| Error::data(format!("{} line {}: {e}", file.display(), e.line())))?;
        return Ok(items.into_iter().enumerate().map(|(i, item)| (i + 1, item)).collect());
    }
    let mut rows = Vec::new();
    for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let row = serde_json::from_str(line).map_err(|e| {
            Error::data(format!("{} line {}: {e}", file.display(), i + 1))
                .help("every line must be one JSON object; is the file cut off?")
        })?;
        rows.push((i + 1, row));
    }
    Ok(rows)
}

/// The error of one row.
pub fn row_error(file: &Path, line: usize, message: impl std::fmt::Display) -> Error {
    Error::data(format!("{} line {line}: {message}", file.display()))
}

/// The ids of a file's problems and where they stand. Results are told apart by the id of their problem, so a table holds each id once.
#[derive(Debug, Default)]
pub struct Ids(BTreeMap<String, usize>);

impl Ids {
    /// Notes the id of the row in `line`. Errors: data, when an earlier row has it; both lines are named.
    pub fn note(&mut self, file: &Path, line: usize, id: &str) -> Result<()> {
        match self.0.insert(id.to_string(), line) {
            None => Ok(()),
            Some(first) => Err(row_error(file, line, format!("the id `{id}` is that of line {first}"))
                .help("remove the repeated question; where the format has a column `id`, give every row its own")),
        }
    }
}

/// A column that must hold text.
pub fn text_column<'a>(row: &'a Map<String, Value>, column: &str) -> Result<&'a str> {
    match row.get(column) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(Error::data(format!("`{column}` is no text"))),
        None => Err(Error::data(format!("no column `{column}`; there are: {}", names(row)))),
    }
}

/// The columns of a row, for messages.
pub fn names(row: &Map<String, Value>) -> String {
    let mut names: Vec<&str> = row.keys().map(String::as_str).collect();
    names.sort_unstable();
    names.join(", ")
}

/// Verifier data for an answer without any: numbers are compared as numbers (the default), everything else as text.
pub fn verifier_for(answer: &str) -> String {
    let number = answer.trim().replace([',', '$'], "").parse::<f64>().is_ok_and(f64::is_finite);
    if number { "{}".into() } else { r#"{"kind":"text"}"#.into() }
}
