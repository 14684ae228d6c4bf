//! Runs a statement of `artifacts query` in a separate process: this program, started as `trainyard query-worker`.
//!
//! A join multiplies its inputs, and a running query engine neither checks a clock nor releases memory, so only the end
//! of its process limits a statement. The [`host`] writes a [`QueryRequest`] as JSON to the worker's stdin. The
//! [`worker`] writes the formatted result, or an error, to its stdout; it formats numbers itself, so they are printed
//! as computed.

pub mod host;
mod tables;
pub mod worker;

pub use tables::{SELF, tables_of, usual_memory};

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use trainyard_core::units::format_size;
use trainyard_core::{Error, Result};

/// Output format of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AnswerFormat {
    /// Human-readable table.
    Text,
    /// One document with columns and rows.
    Json,
    /// One document with the numbers of the rows for which the statement, a condition over one row of the only table,
    /// is true.
    Matching {
        /// Number of matching rows before the first in the document.
        from: usize,
    },
}

/// Input of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub struct QueryRequest {
    /// Id of the process that waits for the response.
    pub owner: u32,
    /// Name of each table in the statement, and its Parquet file.
    pub tables: Vec<(String, PathBuf)>,
    /// SELECT, or condition.
    pub statement: String,
    /// Maximum number of rows in the response.
    pub rows: usize,
    pub format: AnswerFormat,
    /// Bytes that the statement may add to the worker's address space.
    pub memory: u64,
}

type QueryResponse = Result<String>;

fn too_large(memory: u64) -> Error {
    Error::data(format!("the statement needs more memory than its limit of {}", format_size(memory))).help(
        "filter or `limit` rows in a subquery before they are joined, \
             or pass a larger `--memory`, e.g. `--memory 8GiB`",
    )
}
