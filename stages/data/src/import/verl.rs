//! Implements the format `verl`: rows in the form that verl's trainers read.
//!
//! The column `prompt` is text or a list of `{role, content}`; the answer is the first present value of
//! `reward_model.ground_truth`, `extra_info.answer` and `answer`. If present, `data_source` becomes the column
//! `source`, `extra_info.split` the split, and `extra_info.answer` the reference; `extra_info.index` becomes a part of
//! the id. Our export writes the other columns into `extra_info.problem`.

use super::chat::text_or_messages;
use super::format::{ImportContext, ImportFormat, RowConverter, missing, verifier_for};
use crate::identity::problem_id;
use serde_json::{Map, Value};
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_tables::Problem;

/// Keys of `extra_info` that are read; with others, the whole object is kept as well.
const EXTRA: [&str; 4] = ["answer", "index", "problem", "split"];

/// Environment of the problems, unless the options or the row name another one.
const ENVIRONMENT: &str = "math-problems";

/// Fills `problems`.
pub struct VerlImport;

impl ImportFormat for VerlImport {
    fn name(&self) -> &'static str {
        "verl"
    }
    fn summary(&self) -> &'static str {
        "problems for verl"
    }
    fn outputs(&self) -> &'static [&'static str] {
        &["problems"]
    }
    fn recognizes(&self, columns: &Map<String, Value>) -> bool {
        let truth = columns.get("reward_model").and_then(|model| model.get("ground_truth"));
        columns.contains_key("prompt") && truth.is_some() && !super::toolrl::is_marked(truth)
    }
    fn columns(&self) -> &'static [&'static str] {
        &["prompt", "reward_model", "extra_info", "answer", "data_source", "ability"]
    }
    fn reads(&self, column: &str, row: &Map<String, Value>) -> bool {
        let extra = row.get("extra_info").and_then(Value::as_object);
        match column {
            // Our export writes the environment there.
            "ability" => extra.is_some_and(|extra| extra.contains_key("problem")),
            "extra_info" => extra.is_none_or(|extra| extra.keys().all(|key| EXTRA.contains(&key.as_str()))),
            other => self.columns().contains(&other),
        }
    }
    fn environment(&self, row: &Map<String, Value>) -> Option<&'static str> {
        let exported = row.get("extra_info").is_some_and(|extra| extra.get("problem").is_some());
        (!exported).then_some(ENVIRONMENT)
    }
    fn open<'r>(&'r self, _: &Path, reading: &'r ImportContext) -> Result<RowConverter<'r>> {
        Ok(Box::new(move |row| Ok(problem(&row.columns, &row.place, reading)?.into())))
    }
}

fn problem(row: &Map<String, Value>, place: &str, reading: &ImportContext) -> Result<Problem> {
    let messages = text_or_messages(row.get("prompt").ok_or_else(|| missing(row, "column `prompt`"))?, "user")?;
    let nested = |outer: &str, inner: &str| row.get(outer).and_then(|v| v.get(inner)).and_then(text);
    let answer = nested("reward_model", "ground_truth")
        .or_else(|| nested("extra_info", "answer"))
        .or_else(|| row.get("answer").and_then(text));
    let mut problem = Problem {
        answer: answer.ok_or_else(|| {
            Error::data("none of `reward_model.ground_truth`, `extra_info.answer`, `answer` is present")
        })?,
        messages,
        environment: reading.environment_or(ENVIRONMENT),
        source: row.get("data_source").and_then(text).unwrap_or_else(|| reading.name.clone()),
        split: nested("extra_info", "split").unwrap_or_else(|| reading.split.clone()),
        reference: nested("extra_info", "answer"),
        ..Problem::default()
    };
    if let Some(columns) =
        row.get("extra_info").and_then(|extra| extra.get("problem")).filter(|columns| columns.is_object())
    {
        return exported(problem, columns, reading);
    }
    // Rows may repeat a question under different system messages, so the id includes the position in the file.
    let index = nested("extra_info", "index").unwrap_or_else(|| place.to_string());
    problem.id = format!("{}-{index}", problem_id(&reading.name, problem.question()));
    problem.verifier = verifier_for(&problem.answer);
    problem.canonical = crate::text::normal(problem.question());
    Ok(problem)
}

/// Reads a row of our export: `extra_info.problem` has the columns that verl lacks.
fn exported(problem: Problem, columns: &Value, reading: &ImportContext) -> Result<Problem> {
    let own_text = |key: &str| {
        columns.get(key).and_then(text).ok_or_else(|| Error::data(format!("`extra_info.problem` has no `{key}`")))
    };
    let level = columns.get("level").and_then(Value::as_u64).and_then(|level| u32::try_from(level).ok());
    Ok(Problem {
        id: own_text("id")?,
        environment: reading.environment.clone().map_or_else(|| own_text("environment"), Ok)?,
        level: level.ok_or_else(|| Error::data("`extra_info.problem.level` is not a whole number"))?,
        verifier: own_text("verifier")?,
        canonical: own_text("canonical")?,
        ..problem
    })
}

/// Returns text unchanged, and numbers and structures as JSON; `None` for null.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}
