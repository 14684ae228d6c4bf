//! Walks from a row to the rows, models and files that it was made from, and to the rows that were made from it.
//!
//! Rows are linked by ids: a kept row has the id of its source, `parents` names the rows that a row was made from,
//! `problem_id` its problem, `rollout` the rollout of a result, `fork_of` the rollout before a fork. The links of a row
//! lead to the inputs of its stage, or to another output of it. Packs of tokens name their rows in `trajectories`, and
//! rows that could not be read in `trajectory`. A parent that is in no input gets a node with a note. Only columns
//! with ids are read of a table, and those in `SHOWN` of a row that is shown.

mod descendants;
mod inputs;
mod links;
mod node;
mod row;
mod sources;
#[cfg(test)]
mod tests;

pub use descendants::{DescendantRow, DescendantTable, Descendants, descendants};
pub(crate) use node::artifact_name;
pub use node::{CountedInput, LineageNode, Relation};
pub use sources::sources;

/// Columns that are read of a shown row.
const SHOWN: [&str; 13] = [
    "id",
    "problem_id",
    "parents",
    "trajectories",
    "trajectory",
    "fork_of",
    "rollout",
    "model_digest",
    "model",
    "messages",
    "answer",
    "source",
    "correct",
];

/// Column with the id of a row.
const ID: &str = "id";
/// Maximum characters of a row's text.
const MAX_TEXT: usize = 80;
