//! Implements the format `gsm8k`: grade-school word problems with worked solutions (arXiv 2110.14168). The column
//! `reference` contains the solution with its calculator annotations, and `answer` the text after `####` without
//! thousands separators.

use super::format::{ImportContext, ImportFormat, ImportRow, RowConverter, is_text, text_column};
use crate::annotation::segments;
use crate::identity::problem_id;
use serde_json::{Map, Value};
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_tables::{Message, Problem};

/// Highest level. Longer solutions get this level too, because there are few of them.
const MOST_LEVELS: usize = 8;

/// Environment of the problems, unless the options name another one.
pub(super) const ENVIRONMENT: &str = "math-problems";

/// Fills `problems`. The level is the number of calculations in the solution, at most 8.
pub struct Gsm8k;

impl ImportFormat for Gsm8k {
    fn name(&self) -> &'static str {
        "gsm8k"
    }
    fn summary(&self) -> &'static str {
        "problems of GSM8K"
    }
    fn outputs(&self) -> &'static [&'static str] {
        &["problems"]
    }
    fn recognizes(&self, columns: &Map<String, Value>) -> bool {
        let answer = columns.get("answer").and_then(Value::as_str);
        is_text(columns, "question") && answer.and_then(final_answer).is_some()
    }
    fn columns(&self) -> &'static [&'static str] {
        &["question", "answer"]
    }
    fn environment(&self, _: &Map<String, Value>) -> Option<&'static str> {
        Some(ENVIRONMENT)
    }
    fn open<'r>(&'r self, _: &Path, reading: &'r ImportContext) -> Result<RowConverter<'r>> {
        Ok(Box::new(move |ImportRow { columns, .. }| {
            let (question, solution) = (text_column(columns, "question")?, text_column(columns, "answer")?);
            let answer = final_answer(solution).ok_or_else(|| Error::data("the answer does not end with `#### n`"))?;
            Ok(problem(question, solution, answer, reading).into())
        }))
    }
}

/// Returns the text after the last `####`, without thousands separators, or `None` if it is missing or empty.
pub fn final_answer(solution: &str) -> Option<String> {
    let (_, answer) = solution.rsplit_once("####")?;
    let answer = answer.trim().replace(',', "");
    (!answer.is_empty()).then_some(answer)
}

/// Returns a problem of the GSM8K family with its annotated solution as `reference`.
pub fn problem(question: &str, reference: &str, answer: String, reading: &ImportContext) -> Problem {
    let calculations = segments(reference).iter().filter(|s| s.calculation.is_some()).count();
    Problem {
        id: problem_id(&reading.name, question),
        messages: vec![Message::new("user", question)],
        answer,
        verifier: "{}".into(),
        environment: reading.environment_or(ENVIRONMENT),
        level: calculations.clamp(1, MOST_LEVELS) as u32,
        source: reading.name.clone(),
        split: reading.split.clone(),
        canonical: crate::text::normal(question),
        reference: Some(reference.to_string()),
        meta: None,
        parents: Vec::new(),
    }
}
