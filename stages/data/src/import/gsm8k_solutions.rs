//! Implements the format `gsm8k_solutions`: GSM8K's `example_model_solutions.jsonl`, graded solutions of four models to
//! the test problems.
//!
//! Every key of a row whose value is an object with `is_correct` and `solution` counts as a solver, regardless of the
//! key's name. The problems get the ids of format `gsm8k`, so solutions and the test split match.

use super::format::{ImportContext, ImportFormat, ImportedRows, RowConverter, is_text, text_column};
use crate::identity::problem_id;
use crate::solutions::Solution;
use serde_json::{Map, Value};
use std::path::Path;
use trainyard_core::{Error, Result};

/// Fills `solutions` and `problems`.
pub struct Gsm8kSolutions;

impl ImportFormat for Gsm8kSolutions {
    fn name(&self) -> &'static str {
        "gsm8k_solutions"
    }
    fn summary(&self) -> &'static str {
        "graded solutions of several solvers to GSM8K"
    }
    fn outputs(&self) -> &'static [&'static str] {
        &["problems", "solutions"]
    }
    fn file_name(&self, _split: &str) -> Option<String> {
        Some("example_model_solutions.jsonl".into())
    }
    fn recognizes(&self, columns: &Map<String, Value>) -> bool {
        let graded = |value: &Value| value.get("is_correct").is_some() && value.get("solution").is_some();
        is_text(columns, "question") && is_text(columns, "ground_truth") && columns.values().any(graded)
    }
    fn columns(&self) -> &'static [&'static str] {
        &["question", "ground_truth"]
    }
    fn reads(&self, column: &str, row: &Map<String, Value>) -> bool {
        self.columns().contains(&column) || row.get(column).is_some_and(Value::is_object)
    }
    fn environment(&self, _: &Map<String, Value>) -> Option<&'static str> {
        Some(super::gsm8k::ENVIRONMENT)
    }
    fn open<'r>(&'r self, _: &Path, reading: &'r ImportContext) -> Result<RowConverter<'r>> {
        let reading = ImportContext {
            name: if reading.name == self.name() { "gsm8k".into() } else { reading.name.clone() },
            ..reading.clone()
        };
        Ok(Box::new(move |row| graded(&row.columns, &reading)))
    }
}

fn graded(row: &Map<String, Value>, reading: &ImportContext) -> Result<ImportedRows> {
    let question = text_column(row, "question")?;
    let reference = text_column(row, "ground_truth")?;
    let answer = final_line_answer(reference).ok_or_else(|| Error::data("`ground_truth` has no last line `A: n`"))?;
    let mut solutions = Vec::new();
    for (solver, value) in row {
        let Value::Object(graded) = value else { continue };
        let correct = graded.get("is_correct").and_then(Value::as_bool);
        solutions.push(Solution {
            problem_id: problem_id(&reading.name, question),
            question: question.to_string(),
            answer: answer.clone(),
            solver: solver.clone(),
            solution: text_column(graded, "solution").map_err(|e| e.at(format!("`{solver}`")))?.to_string(),
            correct: correct.ok_or_else(|| Error::data(format!("`{solver}` has no `is_correct`")))?,
            split: reading.split.clone(),
            parents: Vec::new(),
        });
    }
    if solutions.is_empty() {
        return Err(Error::data("no solver in this row; write `{is_correct, solution}` under each solver's name"));
    }
    // A build feature determines whether maps keep the file's order, so the solutions are sorted.
    solutions.sort_by(|a, b| a.solver.cmp(&b.solver));
    let problems = vec![super::gsm8k::problem(question, reference, answer, reading)];
    Ok(ImportedRows { solutions, problems, ..ImportedRows::default() })
}

/// Returns the text after `A:` in the last line, without thousands separators and `$`, or `None` if the last line does
/// not begin with `A:` or has no text after it.
pub fn final_line_answer(solution: &str) -> Option<String> {
    let answer = solution.trim_end().lines().last()?.strip_prefix("A:")?.trim().replace([',', '$'], "");
    (!answer.is_empty()).then_some(answer)
}
