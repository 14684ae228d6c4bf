//! Format `gsm8k_solutions`: GSM8K's `example_model_solutions.jsonl`, graded solutions of four models to the test
//! problems.
//!
//! Every key of a row whose value is an object with `is_correct` and `solution` counts as a solver, whatever its name.
//! The problems get the ids of format `gsm8k`, so that solutions and the test split match.

use super::format::{Format, Ids, Imported, Reading, read_objects, row_error, text_column};
use crate::identity::problem_id;
use crate::solutions::Solution;
use serde_json::Value;
use std::path::Path;
use trainyard_core::{Error, Result};

/// Fills `solutions` and `problems`.
pub struct Gsm8kSolutions;

impl Format for Gsm8kSolutions {
    fn name(&self) -> &'static str {
        "gsm8k_solutions"
    }
    fn summary(&self) -> &'static str {
        "graded solutions of several solvers to GSM8K"
    }
    fn yields(&self) -> &'static [&'static str] {
        &["problems", "solutions"]
    }
    fn file_name(&self, _split: &str) -> String {
        "example_model_solutions.jsonl".into()
    }
    fn read(&self, file: &Path, reading: &Reading) -> Result<Imported> {
        let reading = &Reading {
            name: if reading.name == self.name() { "gsm8k".into() } else { reading.name.clone() },
            ..reading.clone()
        };
        let mut imported = Imported::default();
        let mut ids = Ids::default();
        for (line, row) in read_objects(file)? {
            if reading.is_full(imported.problems.len()) {
                break;
            }
            let at = |e: Error| row_error(file, line, e.message);
            let question = text_column(&row, "question").map_err(at)?;
            let reference = text_column(&row, "ground_truth").map_err(at)?;
            let answer = final_line_answer(reference)
                .ok_or_else(|| row_error(file, line, "`ground_truth` has no last line `A: n`"))?;
            let mut solvers = Vec::new();
            for (solver, value) in &row {
                if let Value::Object(graded) = value {
                    let solution = text_column(graded, "solution")
                        .map_err(|e| row_error(file, line, format!("`{solver}`: {}", e.message)))?;
                    let correct = graded
                        .get("is_correct")
                        .and_then(Value::as_bool)
                        .ok_or_else(|| row_error(file, line, format!("`{solver}` has no `is_correct`")))?;
                    solvers.push(Solution {
                        problem_id: problem_id(&reading.name, question),
                        question: question.to_string(),
                        answer: answer.clone(),
                        solver: solver.clone(),
                        solution: solution.to_string(),
                        correct,
                        split: reading.split.clone(),
                    });
                }
            }
            if solvers.is_empty() {
                return Err(row_error(
                    file,
                    line,
                    "no solver in this row; write `{is_correct, solution}` under each solver's name",
                ));
            }
            if reading.wants(question) {
                // Whether maps keep the file's order depends on a build feature, so sort.
                solvers.sort_by(|a, b| a.solver.cmp(&b.solver));
                imported.solutions.extend(solvers);
                let problem = super::gsm8k::problem(question, reference, answer, reading);
                ids.note(file, line, &problem.id)?;
                imported.problems.push(problem);
            }
        }
        Ok(imported)
    }
}

/// The text after `A:` at the start of the last line, without thousands separators and `$`.
pub fn final_line_answer(solution: &str) -> Option<String> {
    let answer = solution.trim_end().lines().last()?.strip_prefix("A:")?.trim().replace([',', '$'], "");
    (!answer.is_empty()).then_some(answer)
}
