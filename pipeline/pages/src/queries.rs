//! Queries of tables that run outside of the pages: a statement can need any amount of time and memory, so the program
//! runs it in a separate process, which these functions start.

use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;
use trainyard_core::Result;

/// Finds the rows for which a condition is true.
pub type FindMatching = Box<dyn Fn(ConditionQuery) -> BoxFuture<'static, Result<MatchingRows>> + Send + Sync>;
/// Runs one SELECT.
pub type RunSelect = Box<dyn Fn(SelectQuery) -> BoxFuture<'static, Result<SelectResult>> + Send + Sync>;

/// Functions that the program gives to the pages. If one is missing, its page shows an error.
#[derive(Default)]
pub struct PageQueries {
    /// Function that finds rows by a condition, as `artifacts show --where` does.
    pub matching: Option<FindMatching>,
    /// Function that runs statements, as `artifacts query` does.
    pub select: Option<RunSelect>,
}

/// Condition over the rows of an artifact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionQuery {
    /// Artifact, as `DIGEST/OUTPUT`.
    pub artifact: String,
    /// SQL expression over one row.
    pub condition: String,
    /// Number of matching rows before the first returned one.
    pub from: usize,
    /// Maximum number of rows returned.
    pub rows: usize,
    /// Limit on the time.
    pub timeout: Duration,
}

/// Rows for which a condition is true.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct MatchingRows {
    /// Number of matching rows.
    pub matching: u64,
    /// Number of rows of the table.
    pub of: u64,
    /// Numbers of the returned rows, in ascending order.
    pub rows: Vec<u64>,
}

/// Statement over an artifact, which is `self`, and others that the statement names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectQuery {
    /// Artifact, as `DIGEST/OUTPUT`.
    pub artifact: String,
    /// SQL statement.
    pub statement: String,
    /// Maximum number of rows returned.
    pub rows: usize,
    /// Limit on the time.
    pub timeout: Duration,
}

/// Result of a statement.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SelectResult {
    /// Columns, in the order of the statement.
    pub columns: Vec<SelectColumn>,
    /// Cells, in the order of the columns.
    pub rows: Vec<Vec<Value>>,
    /// Whether there are more rows than the limit.
    pub truncated: bool,
}

/// Column of a result.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SelectColumn {
    /// Name, as in the statement.
    pub name: String,
    /// `int`, `float`, `string`, `bool`, `list`, or `null` if all cells are null.
    pub r#type: String,
}
