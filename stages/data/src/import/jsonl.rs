//! Format `jsonl`: problems as JSON Lines under the column names of public data sets.
//!
//! The prompt is the first of `messages` (a list), `prompt` (text or list) and `question` (text); the answer is the
//! first of `answer`, `ground_truth`, `solution` and `target`. Optional: `id`, `level`, `split`, `canonical`,
//! `reference`, `verifier` (text or object), `environment`.

use super::chat::{messages, prompt_messages};
use super::format::{Format, Ids, Imported, NumberedRow, Reading, names, read_objects, row_error, verifier_for};
use crate::identity::problem_id;
use serde_json::{Map, Value};
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_tables::{Message, Problem};

/// Fills `problems`.
pub struct JsonLines;

impl Format for JsonLines {
    fn name(&self) -> &'static str {
        "jsonl"
    }
    fn summary(&self) -> &'static str {
        "problems, one JSON object per line"
    }
    fn yields(&self) -> &'static [&'static str] {
        &["problems"]
    }
    fn read(&self, file: &Path, reading: &Reading) -> Result<Imported> {
        let mut problems = Vec::new();
        let mut ids = Ids::default();
        for (line, row) in read_objects(file)? {
            if reading.is_full(problems.len()) {
                break;
            }
            let problem = problem((line, row), reading).map_err(|e| row_error(file, line, e.message))?;
            if !reading.wants(problem.question()) {
                continue;
            }
            ids.note(file, line, &problem.id)?;
            problems.push(problem);
        }
        Ok(Imported { problems, ..Imported::default() })
    }
}

fn problem((_, row): NumberedRow, reading: &Reading) -> Result<Problem> {
    let messages = prompt(&row)?;
    let answer = ["answer", "ground_truth", "solution", "target"]
        .iter()
        .find_map(|c| row.get(*c))
        .ok_or_else(|| Error::data(format!("missing column `answer`; the columns are: {}", names(&row))))?;
    let own = |column: &str| row.get(column).filter(|v| !v.is_null()).map(as_text);
    let mut problem = Problem {
        id: String::new(),
        messages,
        answer: as_text(answer),
        verifier: own("verifier").unwrap_or_else(|| verifier_for(&as_text(answer))),
        environment: reading
            .environment
            .clone()
            .or_else(|| own("environment"))
            .unwrap_or_else(|| "math-problems".into()),
        level: level(row.get("level"))?,
        source: reading.name.clone(),
        split: own("split").unwrap_or_else(|| reading.split.clone()),
        canonical: String::new(),
        reference: own("reference"),
    };
    problem.id = own("id").unwrap_or_else(|| problem_id(&reading.name, problem.question()));
    problem.canonical = own("canonical").unwrap_or_else(|| crate::text::normal(problem.question()));
    Ok(problem)
}

fn prompt(row: &Map<String, Value>) -> Result<Vec<Message>> {
    if let Some(list) = row.get("messages") {
        // Final assistant messages are not part of the prompt.
        let mut all = messages(list)?;
        while all.last().is_some_and(|m| m.role == "assistant") {
            all.pop();
        }
        return Ok(all);
    }
    let column = ["prompt", "question"].iter().find_map(|c| row.get(*c));
    prompt_messages(column.ok_or_else(|| {
        Error::data(format!("none of `messages`, `prompt`, `question` is present; the columns are: {}", names(row)))
    })?)
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

/// Text unchanged, everything else as JSON.
fn as_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}
