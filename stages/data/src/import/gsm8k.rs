//! Format `gsm8k`: grade-school word problems with worked solutions (arXiv 2110.14168). `reference` is the solution
//! with its calculator annotations, `answer` what follows `####`, without thousands separators.

use super::format::{Format, Ids, Imported, Reading, read_objects, row_error, text_column};
use crate::annotation::segments;
use crate::identity::problem_id;
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_tables::{Message, Problem};

/// Levels above this are merged: too few solutions are longer.
const MOST_LEVELS: usize = 8;

/// Fills `problems`. The level is the number of calculations in the solution, at most 8.
pub struct Gsm8k;

impl Format for Gsm8k {
    fn name(&self) -> &'static str {
        "gsm8k"
    }
    fn summary(&self) -> &'static str {
        "problems of GSM8K"
    }
    fn yields(&self) -> &'static [&'static str] {
        &["problems"]
    }
    fn read(&self, file: &Path, reading: &Reading) -> Result<Imported> {
        let mut problems: Vec<Problem> = Vec::new();
        let mut ids = Ids::default();
        for (line, row) in read_objects(file)? {
            if reading.is_full(problems.len()) {
                break;
            }
            let at = |e: Error| row_error(file, line, e.message);
            let question = text_column(&row, "question").map_err(at)?;
            let solution = text_column(&row, "answer").map_err(at)?;
            let answer =
                final_answer(solution).ok_or_else(|| row_error(file, line, "the answer does not end with `#### n`"))?;
            if reading.wants(question) {
                let problem = problem(question, solution, answer, reading);
                ids.note(file, line, &problem.id)?;
                problems.push(problem);
            }
        }
        Ok(Imported { problems, ..Imported::default() })
    }
}

/// The text after the last `####`, without thousands separators.
pub fn final_answer(solution: &str) -> Option<String> {
    let (_, answer) = solution.rsplit_once("####")?;
    let answer = answer.trim().replace(',', "");
    (!answer.is_empty()).then_some(answer)
}

/// A problem of the GSM8K family with its annotated solution as `reference`.
pub fn problem(question: &str, reference: &str, answer: String, reading: &Reading) -> Problem {
    let calculations = segments(reference).iter().filter(|s| s.calculation.is_some()).count();
    Problem {
        id: problem_id(&reading.name, question),
        messages: vec![Message::new("user", question)],
        answer,
        verifier: "{}".into(),
        environment: reading.environment_or("math-problems"),
        level: calculations.clamp(1, MOST_LEVELS) as u32,
        source: reading.name.clone(),
        split: reading.split.clone(),
        canonical: crate::text::normal(question),
        reference: Some(reference.to_string()),
    }
}
