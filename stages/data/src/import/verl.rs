//! Format `verl`: Parquet rows as verl's trainers read them.
//!
//! `prompt` is a list of `{role, content}`; the answer is `reward_model.ground_truth`, `extra_info.answer` or `answer`.
//! If present, `data_source` becomes the column `source`, and `extra_info.{index, split, answer}` become id, split and
//! reference.

use super::chat::prompt_messages;
use super::format::{Format, Ids, Imported, Reading, names, row_error, verifier_for};
use crate::identity::problem_id;
use serde_json::{Map, Value};
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_tables::{Problem, rows_as_json};

/// Number of rows read at a time.
const PIECE: usize = 4_096;

/// Fills `problems`.
pub struct Verl;

impl Format for Verl {
    fn name(&self) -> &'static str {
        "verl"
    }
    fn summary(&self) -> &'static str {
        "problems for verl"
    }
    fn yields(&self) -> &'static [&'static str] {
        &["problems"]
    }
    fn file_name(&self, split: &str) -> String {
        format!("{split}.parquet")
    }
    fn read(&self, file: &Path, reading: &Reading) -> Result<Imported> {
        let mut problems: Vec<Problem> = Vec::new();
        let mut ids = Ids::default();
        let mut offset = 0;
        loop {
            let piece = rows_as_json(file, offset, PIECE)?;
            let count = piece.len();
            for (i, row) in piece.into_iter().enumerate() {
                if reading.is_full(problems.len()) {
                    break;
                }
                let row_number = offset + i + 1;
                let Value::Object(row) = row else {
                    return Err(row_error(file, row_number, "not an object"));
                };
                let problem = problem(&row, row_number, reading).map_err(|e| row_error(file, row_number, e.message))?;
                if reading.wants(problem.question()) {
                    ids.note(file, row_number, &problem.id)?;
                    problems.push(problem);
                }
            }
            offset += count;
            if count < PIECE || reading.is_full(problems.len()) {
                break;
            }
        }
        Ok(Imported { problems, ..Imported::default() })
    }
}

fn problem(row: &Map<String, Value>, number: usize, reading: &Reading) -> Result<Problem> {
    let messages = prompt_messages(
        row.get("prompt")
            .ok_or_else(|| Error::data(format!("missing column `prompt`; the columns are: {}", names(row))))?,
    )?;
    let nested = |outer: &str, inner: &str| row.get(outer).and_then(|v| v.get(inner)).and_then(text);
    let answer = nested("reward_model", "ground_truth")
        .or_else(|| nested("extra_info", "answer"))
        .or_else(|| row.get("answer").and_then(text));
    let mut problem = Problem {
        answer: answer.ok_or_else(|| {
            Error::data("none of `reward_model.ground_truth`, `extra_info.answer`, `answer` is present")
        })?,
        messages,
        environment: reading.environment_or("math-problems"),
        source: row.get("data_source").and_then(text).unwrap_or_else(|| reading.name.clone()),
        split: nested("extra_info", "split").unwrap_or_else(|| reading.split.clone()),
        reference: nested("extra_info", "answer"),
        ..Problem::default()
    };
    // Rows may repeat a question under different system messages, so the id includes the position in the file.
    let index = nested("extra_info", "index").unwrap_or_else(|| number.to_string());
    problem.id = format!("{}-{index}", problem_id(&reading.name, problem.question()));
    problem.verifier = verifier_for(&problem.answer);
    problem.canonical = crate::text::normal(problem.question());
    Ok(problem)
}

/// Text unchanged, numbers and structures as JSON; null is `None`.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}
