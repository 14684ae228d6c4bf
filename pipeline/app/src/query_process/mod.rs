//! A statement of `artifacts query` in a process of its own: this program again, as `trainyard query-worker`.
//!
//! A join multiplies its inputs, and a query engine at work neither looks at a clock nor gives up memory. Only the end
//! of its process bounds a statement, and takes nothing else with it. The [`host`] writes one [`Order`] to the worker's
//! stdin as JSON; the [`worker`] writes finished text, or an error, to its stdout, so that a number is printed as it
//! was computed.

pub mod host;
pub mod worker;

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use trainyard_core::units::format_size;
use trainyard_core::{Error, Result};

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnswerFormat {
    /// A table for people.
    Text,
    /// One document with columns and rows.
    Json,
}

/// Everything that a worker needs to know.
#[derive(Debug, Serialize, Deserialize)]
pub struct Order {
    /// The process that waits for the answer.
    pub owner: u32,
    /// A Parquet file; statements call it `self`.
    pub table: PathBuf,
    /// The SQL statement.
    pub statement: String,
    /// Most rows of the answer.
    pub rows: usize,
    /// How the answer is written.
    pub format: AnswerFormat,
    /// Bytes that the statement may add to the worker's address space.
    pub memory: u64,
}

/// The worker's answer.
type Answer = Result<String>;

fn too_large(memory: u64) -> Error {
    Error::data(format!("the statement needs more memory than its limit of {}", format_size(memory))).help(
        "filter or `limit` rows in a subquery before they are joined, \
             or pass a larger `--memory`, e.g. `--memory 8GiB`",
    )
}
