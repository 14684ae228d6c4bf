//! Implements the format `jsonl`: problems under the column names of public data sets.
//!
//! The prompt is the first present column of `messages` (a list), `prompt` (text or list) and `question` (text); the
//! answer is the first present column of `answer`, `ground_truth`, `solution` and `target`. The columns `id`, `level`,
//! `split`, `canonical`, `reference`, `verifier` (text or object) and `environment` are optional.

use super::chat::{messages, text_or_messages};
use super::format::{ImportContext, ImportFormat, RowConverter, is_first, missing, names, verifier_for};
use crate::identity::problem_id;
use serde_json::{Map, Value};
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_tables::{Message, Problem};

/// Columns with the prompt; the first present one counts.
const PROMPTS: [&str; 3] = ["messages", "prompt", "question"];
/// Columns with the answer; the first present one counts.
const ANSWERS: [&str; 4] = ["answer", "ground_truth", "solution", "target"];

/// Environment of the problems, unless the options or the row name another one.
const ENVIRONMENT: &str = "math-problems";

/// Fills `problems`.
pub struct JsonLines;

impl ImportFormat for JsonLines {
    fn name(&self) -> &'static str {
        "jsonl"
    }
    fn summary(&self) -> &'static str {
        "problems with question and answer"
    }
    fn outputs(&self) -> &'static [&'static str] {
        &["problems"]
    }
    fn recognizes(&self, columns: &Map<String, Value>) -> bool {
        let has_question = PROMPTS.iter().any(|column| columns.contains_key(*column));
        let gsm8k = columns.get("answer").and_then(Value::as_str).is_some_and(|answer| answer.contains("####"));
        has_question && has_answer(columns) && !gsm8k && !columns.contains_key("reward_model") && !graded(columns)
    }
    fn columns(&self) -> &'static [&'static str] {
        &[
            "messages",
            "prompt",
            "question",
            "answer",
            "ground_truth",
            "solution",
            "target",
            "id",
            "level",
            "split",
            "canonical",
            "reference",
            "verifier",
            "environment",
        ]
    }
    fn reads(&self, column: &str, row: &Map<String, Value>) -> bool {
        let alternatives = [&PROMPTS[..], &ANSWERS].into_iter().find(|names| names.contains(&column));
        alternatives.map_or_else(|| self.columns().contains(&column), |names| is_first(column, names, row))
    }
    fn environment(&self, row: &Map<String, Value>) -> Option<&'static str> {
        row.get("environment").is_none_or(Value::is_null).then_some(ENVIRONMENT)
    }
    fn open<'r>(&'r self, _: &Path, reading: &'r ImportContext) -> Result<RowConverter<'r>> {
        Ok(Box::new(move |row| Ok(problem(&row.columns, reading)?.into())))
    }
}

/// Returns whether a row has an answer to compare with. Such a row is a problem and not a conversation.
pub fn has_answer(columns: &Map<String, Value>) -> bool {
    ANSWERS.iter().any(|column| columns.contains_key(*column))
}

/// Returns whether any column contains a graded solution.
fn graded(columns: &Map<String, Value>) -> bool {
    columns.values().any(|value| value.get("is_correct").is_some())
}

fn problem(row: &Map<String, Value>, reading: &ImportContext) -> Result<Problem> {
    let messages = prompt(row)?;
    let answer = ANSWERS.iter().find_map(|c| row.get(*c)).ok_or_else(|| missing(row, "column `answer`"))?;
    let optional = |column: &str| row.get(column).filter(|v| !v.is_null()).map(as_text);
    let mut problem = Problem {
        id: String::new(),
        messages,
        answer: as_text(answer),
        verifier: optional("verifier").unwrap_or_else(|| verifier_for(&as_text(answer))),
        environment: reading
            .environment
            .clone()
            .or_else(|| optional("environment"))
            .unwrap_or_else(|| ENVIRONMENT.into()),
        level: level(row.get("level"))?,
        source: reading.name.clone(),
        split: optional("split").unwrap_or_else(|| reading.split.clone()),
        canonical: String::new(),
        reference: optional("reference"),
        meta: None,
        parents: Vec::new(),
    };
    problem.id = optional("id").unwrap_or_else(|| problem_id(&reading.name, problem.question()));
    problem.canonical = optional("canonical").unwrap_or_else(|| crate::text::normal(problem.question()));
    Ok(problem)
}

fn prompt(row: &Map<String, Value>) -> Result<Vec<Message>> {
    if let Some(list) = row.get("messages") {
        // Final assistant messages are not part of the prompt.
        let mut all = messages(list, "message")?;
        while all.last().is_some_and(|m| m.role == "assistant") {
            all.pop();
        }
        return Ok(all);
    }
    let column = ["prompt", "question"].iter().find_map(|c| row.get(*c));
    let none = || format!("none of `messages`, `prompt`, `question` is present; the columns are: {}", names(row));
    text_or_messages(column.ok_or_else(|| Error::data(none()))?, "user")
}

fn level(value: Option<&Value>) -> Result<u32> {
    match value {
        None | Some(Value::Null) => Ok(0),
        Some(value) => value
            .as_u64()
            .and_then(|n| u32::try_from(n).ok())
            .ok_or_else(|| Error::data(format!("`level` is {value}; use a whole number of at least 0"))),
    }
}

/// Returns a text value unchanged, and any other value as JSON.
fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}
