//! Defines the trait of import formats, and functions that read rows.

use crate::identity::{Half, half_of};
use crate::solutions::Solution;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_tables::{Message, Problem, Trajectory};

/// Interpretation of rows: converts the columns of a row to problems, trajectories or solutions. A format does not
/// depend on the storage of rows in files (JSON Lines, Parquet, compressed, …).
pub trait ImportFormat: Send + Sync {
    /// Returns the registered name.
    fn name(&self) -> &'static str;
    /// Returns one line for lists: the content of a row.
    fn summary(&self) -> &'static str;
    /// Returns Markdown: the rows and their outputs. By default it refers to the page of the stage, which describes the
    /// formats of this crate.
    fn doc(&self) -> &'static str {
        "A format of `data/import`. `trainyard stages data/import` describes its rows and outputs."
    }
    /// Returns the output ports that this format fills.
    fn outputs(&self) -> &'static [&'static str];
    /// Returns the name of the file to read if `source` is a folder that contains this file. With `None` or without the
    /// file, all files of rows of the split are read.
    fn file_name(&self, _split: &str) -> Option<String> {
        None
    }
    /// Returns whether a row certainly has this format. The function is called only if the options name no format, so
    /// no two formats should recognize the same row.
    fn recognizes(&self, _columns: &Map<String, Value>) -> bool {
        false
    }
    /// Returns the names of all columns that this format may read. A row's other columns are kept in the column `meta`;
    /// with an empty list, none are.
    fn columns(&self) -> &'static [&'static str] {
        &[]
    }
    /// Returns whether the format reads this column of a row. Where one of several names counts, the others of the row
    /// are not read.
    fn reads(&self, column: &str, _row: &Map<String, Value>) -> bool {
        self.columns().is_empty() || self.columns().contains(&column)
    }
    /// Returns the environment that the format gives the problem of a row if the options name none; `None` if the row
    /// names its own, or if the format yields no problems.
    fn environment(&self, _row: &Map<String, Value>) -> Option<&'static str> {
        None
    }
    /// Prepares the conversion of a file's rows.
    fn open<'r>(&'r self, file: &Path, reading: &'r ImportContext) -> Result<RowConverter<'r>>;
}

/// Conversion of a row. Called from several threads, in any order. An error of kind data rejects the row: its message
/// is the reason, without the place.
pub type RowConverter<'r> = Box<dyn Fn(&ImportRow) -> Result<ImportedRows> + Send + Sync + 'r>;

#[derive(Debug, Clone, Default)]
pub struct ImportRow {
    pub columns: Map<String, Value>,
    /// Line, or number in a list or a Parquet file, from 1.
    pub line: usize,
    /// Line of the row, after the number of the file if the source has several files; unique within a source.
    pub place: String,
}

/// Selection and naming of rows.
#[derive(Debug, Clone, Default)]
pub struct ImportContext {
    /// Name of the split, for the column `split`.
    pub split: String,
    /// Only rows of this half.
    pub half: Option<Half>,
    /// Maximum number of rows.
    pub limit: Option<u64>,
    /// Environment of the problems; `None` = the format's default.
    pub environment: Option<String>,
    /// Value of the column `source`, and prefix of ids.
    pub name: String,
    /// Names of columns in the source, by the names that the format reads.
    pub columns: BTreeMap<String, String>,
}

impl ImportContext {
    /// Returns whether a row about this question belongs to the wanted half.
    pub fn wants(&self, question: &str) -> bool {
        self.half.is_none_or(|half| half_of(question) == half)
    }
    /// Returns whether `count` rows reach the limit.
    pub fn is_full(&self, count: u64) -> bool {
        self.limit.is_some_and(|limit| count >= limit)
    }
    /// Returns the environment of the options, or `default` if they name no environment.
    pub fn environment_or(&self, default: &str) -> String {
        self.environment.clone().unwrap_or_else(|| default.to_string())
    }
}

/// Outputs of a row, or of several rows in order. Empty if a row does not belong to the split.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImportedRows {
    /// Problems.
    pub problems: Vec<Problem>,
    /// Conversations.
    pub trajectories: Vec<Trajectory>,
    /// Pairs of conversations, the chosen one before the rejected one.
    pub preferences: Vec<Trajectory>,
    /// Graded solutions.
    pub solutions: Vec<Solution>,
}

impl ImportedRows {
    /// Returns the question of a row, whose hash determines the half, or `None` if the row has no outputs.
    pub fn question(&self) -> Option<&str> {
        let first_user = |row: &Trajectory| row.messages.iter().position(|m| m.role == "user");
        let conversation = self.trajectories.first().or(self.preferences.first());
        match (self.problems.first(), conversation) {
            (Some(problem), _) => Some(problem.question()),
            (None, Some(row)) => Some(first_user(row).map_or("", |at| &row.messages[at].content)),
            (None, None) => None,
        }
    }
    /// Returns the messages of all outputs, in order.
    pub fn conversations(&self) -> Vec<&[Message]> {
        let problems = self.problems.iter().map(|row| row.messages.as_slice());
        let rows = self.trajectories.iter().chain(&self.preferences).map(|row| row.messages.as_slice());
        problems.chain(rows).collect()
    }
    /// Sets the further columns of all outputs.
    pub fn with_meta(mut self, meta: Option<&str>) -> Self {
        let text = || meta.map(str::to_string);
        self.problems.iter_mut().for_each(|row| row.meta = text());
        self.trajectories.iter_mut().chain(&mut self.preferences).for_each(|row| row.meta = text());
        self
    }
    /// Puts the place of the row before the parents of all outputs.
    pub fn with_place(mut self, place: &str) -> Self {
        let of_problems = self.problems.iter_mut().map(|row| &mut row.parents);
        let of_trajectories = self.trajectories.iter_mut().chain(&mut self.preferences).map(|row| &mut row.parents);
        let of_solutions = self.solutions.iter_mut().map(|row| &mut row.parents);
        let all = of_problems.chain(of_trajectories).chain(of_solutions);
        all.for_each(|parents| parents.insert(0, place.to_string()));
        self
    }
    /// Adds the outputs of later rows.
    pub fn append(&mut self, mut later: Self) {
        self.problems.append(&mut later.problems);
        self.trajectories.append(&mut later.trajectories);
        self.preferences.append(&mut later.preferences);
        self.solutions.append(&mut later.solutions);
    }
}

impl From<Problem> for ImportedRows {
    fn from(problem: Problem) -> Self {
        Self { problems: vec![problem], ..Self::default() }
    }
}

impl From<Trajectory> for ImportedRows {
    fn from(trajectory: Trajectory) -> Self {
        Self { trajectories: vec![trajectory], ..Self::default() }
    }
}

/// Returns the text of a column. Errors: data, if the column is missing or is not text.
pub fn text_column<'a>(row: &'a Map<String, Value>, column: &str) -> Result<&'a str> {
    match row.get(column) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(Error::data(format!("`{column}` is not text"))),
        None => Err(missing(row, &format!("column `{column}`"))),
    }
}

/// Returns the error of a row that lacks `expected`; the message lists the columns of the row.
pub fn missing(row: &Map<String, Value>, expected: &str) -> Error {
    Error::data(format!("missing {expected}; the columns are: {}", names(row)))
}

/// Returns the sorted column names of a row, for messages.
pub fn names(row: &Map<String, Value>) -> String {
    let mut names: Vec<&str> = row.keys().map(String::as_str).collect();
    names.sort_unstable();
    names.join(", ")
}

/// Returns whether a column is the first of `names` that a row has.
pub fn is_first(column: &str, names: &[&str], row: &Map<String, Value>) -> bool {
    names.iter().find(|name| row.contains_key(**name)).is_some_and(|name| *name == column)
}

/// Returns whether a column contains text.
pub fn is_text(row: &Map<String, Value>, column: &str) -> bool {
    row.get(column).is_some_and(Value::is_string)
}

/// Returns verifier data for an answer without verifier data: numbers are compared as numbers (the default), other
/// answers as text.
pub fn verifier_for(answer: &str) -> String {
    let number = answer.trim().replace([',', '$'], "").parse::<f64>().is_ok_and(f64::is_finite);
    if number { "{}".into() } else { r#"{"kind":"text"}"#.into() }
}

/// Sorts the keys of all maps in a value, because a build feature determines whether maps keep the file's order.
pub fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let ordered: BTreeMap<&String, &Value> = map.iter().collect();
            Value::Object(ordered.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}
