//! Finds rows that repeat earlier ones, and makes the ids of problems unique, because results refer to problems by id.

use crate::import::format::ImportedRows;
use crate::import::rows::files::ImportFile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use trainyard_core::{Digest, Error, Result};

/// Handling of a row that repeats an earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DuplicatePolicy {
    /// The row is kept; the id of a repeated problem ends with the row's position.
    #[default]
    Keep,
    /// The row is left out and counted.
    Drop,
}

/// Position of a row in the source.
#[derive(Debug, Clone, Copy)]
pub struct RowPlace {
    /// Number of the file, from 0.
    pub file: usize,
    /// Line, or number in a list or a Parquet file, from 1.
    pub line: usize,
}

impl RowPlace {
    /// Returns the line, after the number of the file if the source has `files` other than one.
    pub fn name(self, files: usize) -> String {
        if files == 1 { self.line.to_string() } else { format!("{}-{}", self.file + 1, self.line) }
    }
    /// Returns the place for the column `parents`: the name of the file and the line, as `train.jsonl:17`.
    pub fn parent(self, file: &ImportFile) -> String {
        format!("{}:{}", file.name, self.line)
    }
}

/// Rows seen so far. The keys are digests, so that a million rows take little memory.
#[derive(Default)]
pub struct EarlierRows {
    problems: HashMap<u128, EarlierProblem>,
    conversations: HashSet<u128>,
}

/// First problem with an id.
#[derive(Clone, Copy)]
struct EarlierProblem {
    file: u32,
    line: u32,
    question: u128,
}

impl EarlierRows {
    /// Records the messages of a row; returns whether an earlier row has the same ones.
    pub fn repeats(&mut self, rows: &ImportedRows) -> Result<bool> {
        Ok(!self.conversations.insert(key(&Digest::of_json(&rows.conversations())?)?))
    }
    /// Records the problems of a row. A problem with the id and the question of an earlier one gets an id that ends
    /// with the row's position. Errors: data, if the id is that of another question.
    pub fn make_ids_unique(&mut self, rows: &mut ImportedRows, place: RowPlace, files: &[ImportFile]) -> Result<()> {
        for problem in &mut rows.problems {
            let question = key(&Digest::of(problem.question().as_bytes()))?;
            let Some(earlier) = self.record(&problem.id, question, place)? else { continue };
            let numbered = format!("{}-{}", problem.id, place.name(files.len()));
            if earlier.question != question {
                return Err(other_question(&problem.id, earlier, place, files));
            }
            if let Some(earlier) = self.record(&numbered, question, place)? {
                return Err(other_question(&numbered, earlier, place, files));
            }
            let of_problem = rows.solutions.iter_mut().filter(|solution| solution.problem_id == problem.id);
            of_problem.for_each(|solution| solution.problem_id.clone_from(&numbered));
            problem.id = numbered;
        }
        Ok(())
    }

    /// Records an id, unless an earlier problem has it, which is returned.
    fn record(&mut self, id: &str, question: u128, place: RowPlace) -> Result<Option<EarlierProblem>> {
        let id = key(&Digest::of(id.as_bytes()))?;
        if let Some(earlier) = self.problems.get(&id) {
            return Ok(Some(*earlier));
        }
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        self.problems.insert(id, EarlierProblem { file: number(place.file), line: number(place.line), question });
        Ok(None)
    }
}

fn key(digest: &Digest) -> Result<u128> {
    u128::from_str_radix(&digest.as_str()[..32], 16).map_err(|e| Error::bug(format!("{digest}: {e}")))
}

fn other_question(id: &str, earlier: EarlierProblem, place: RowPlace, files: &[ImportFile]) -> Error {
    let first = match earlier.file as usize {
        same if same == place.file => format!("line {}", earlier.line),
        other => format!("line {} of {}", earlier.line, files.get(other).map_or("", |file| &file.name)),
    };
    Error::data(format!("asks something else than {first}, which has the same id: `{id}`"))
        .help("give every question its own `id`, or leave the column out")
}
