//! The trait of import formats, and helpers to read rows.

use crate::identity::{Half, half_of};
use crate::solutions::Solution;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};
use trainyard_tables::{Problem, Trajectory};

/// A file format of rows.
pub trait Format: Send + Sync {
    /// The registered name.
    fn name(&self) -> &'static str;
    /// One line for lists: what such a file holds.
    fn summary(&self) -> &'static str;
    /// Markdown: the rows and the outputs that they become. By default it refers to the page of the stage, which
    /// describes the formats of this crate.
    fn doc(&self) -> &'static str {
        "A file format of `data/import`. Its rows and the outputs that it fills stand in `trainyard stages \
         data/import`."
    }
    /// The output ports that this format fills.
    fn yields(&self) -> &'static [&'static str];
    /// The file to read when `source` is a folder.
    fn file_name(&self, split: &str) -> String {
        format!("{split}.jsonl")
    }
    /// Reads all rows that [`Reading`] asks for, in file order. Fails with kind `data` and the line of an unreadable
    /// row.
    fn read(&self, file: &Path, reading: &Reading) -> Result<Imported>;
}

/// What to read and how to name it.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// Name of the split, for the column `split`.
    pub split: String,
    /// Only rows of this half.
    pub half: Option<Half>,
    /// The largest number of rows.
    pub limit: Option<usize>,
    /// Environment of the problems; `None` = the format's own.
    pub environment: Option<String>,
    /// Value of the column `source`, and prefix of ids.
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
    /// The environment, or else `default`.
    pub fn environment_or(&self, default: &str) -> String {
        self.environment.clone().unwrap_or_else(|| default.to_string())
    }
}

/// The rows of a file.
#[derive(Debug, Clone, Default)]
pub struct Imported {
    /// Problems, in file order.
    pub problems: Vec<Problem>,
    /// Conversations, in file order.
    pub trajectories: Vec<Trajectory>,
    /// Graded solutions, in file order.
    pub solutions: Vec<Solution>,
    /// Rows whose tool schemas were dropped: trajectories have no column for them.
    pub tools_dropped: usize,
}

/// A JSON object with its line number, from 1.
pub type NumberedRow = (usize, Map<String, Value>);

/// Reads the objects of a JSON Lines file (blank lines are skipped) or of a JSON list (numbered by item). A broken line
/// fails with kind `data`: `file line N: …`.
pub fn read_objects(file: &Path) -> Result<Vec<NumberedRow>> {
    let bytes = std::fs::read(file).map_err(|e| io_error(file, &e))?;
    let text = std::str::from_utf8(&bytes).map_err(|e| {
        let line = bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
        Error::data(format!("{} line {line}: not UTF-8", file.display()))
    })?;
    // A list of objects. A later line that begins with `[` is a broken line.
    if text.trim_start().starts_with('[') {
        let items: Vec<Map<String, Value>> = serde_json::from_str(text)
            .map_err(|e| Error::data(format!("{} line {}: {e}", file.display(), e.line())))?;
        return Ok(items.into_iter().enumerate().map(|(i, item)| (i + 1, item)).collect());
    }
    let mut rows = Vec::new();
    for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let row = serde_json::from_str(line).map_err(|e| {
            Error::data(format!("{} line {}: {e}", file.display(), i + 1))
                .help("write one JSON object per line; the file may be cut off")
        })?;
        rows.push((i + 1, row));
    }
    Ok(rows)
}

/// The error for one row.
pub fn row_error(file: &Path, line: usize, message: impl std::fmt::Display) -> Error {
    Error::data(format!("{} line {line}: {message}", file.display()))
}

/// The ids of a file's problems and their lines. Results refer to problems by id, so every id must be unique.
#[derive(Debug, Default)]
pub struct Ids(BTreeMap<String, usize>);

impl Ids {
    /// Records the id of the row in `line`. Fails with kind `data` and both lines if an earlier row has it.
    pub fn note(&mut self, file: &Path, line: usize, id: &str) -> Result<()> {
        match self.0.insert(id.to_string(), line) {
            None => Ok(()),
            Some(first) => Err(row_error(file, line, format!("the id `{id}` is already used in line {first}"))
                .help("remove the repeated question, or give every row its own `id` where the format has that column")),
        }
    }
}

/// A text column.
pub fn text_column<'a>(row: &'a Map<String, Value>, column: &str) -> Result<&'a str> {
    match row.get(column) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(Error::data(format!("`{column}` is not text"))),
        None => Err(Error::data(format!("missing column `{column}`; the columns are: {}", names(row)))),
    }
}

/// The sorted column names of a row, for messages.
pub fn names(row: &Map<String, Value>) -> String {
    let mut names: Vec<&str> = row.keys().map(String::as_str).collect();
    names.sort_unstable();
    names.join(", ")
}

/// Verifier data for an answer that comes without any: numbers are compared as numbers (the default), other answers as
/// text.
pub fn verifier_for(answer: &str) -> String {
    let number = answer.trim().replace([',', '$'], "").parse::<f64>().is_ok_and(f64::is_finite);
    if number { "{}".into() } else { r#"{"kind":"text"}"#.into() }
}
