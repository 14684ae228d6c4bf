//! Implements the tool `sql`, which runs one read-only query on a small SQLite database.
//!
//! A result has one row per line, values joined by `|`, without a header, as SQLite's shell prints it. The same query
//! always gives the same text: SQLite's instruction count limits queries, and queries see neither clock nor random
//! numbers (`authorizer`, `dates`). The database belongs to an environment, which opens the sessions; forks of an
//! episode share it.

pub(crate) mod authorizer;
pub mod database;
pub(crate) mod dates;

pub use database::{DatabaseData, QueryFailure, SqlDatabase, SqlLimits};

use crate::tools::tool::text_argument;
use crate::tools::{PendingToolResult, ToolResult, ToolSession, ToolSpec};
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_core::Result;

/// The tool's name in calls.
pub const NAME: &str = "sql";

const DESCRIPTION: &str = "Runs one SELECT on the SQLite database and returns its rows, one a line, values joined by \
`|`. Read-only; no current time, no random numbers.";

/// Returns the tool's description for the model.
pub fn spec() -> ToolSpec {
    ToolSpec {
        name: NAME.to_string(),
        description: DESCRIPTION.to_string(),
        parameters: json!({
            "type": "object",
            "properties": {"query": {"type": "string", "description": "for example: SELECT COUNT(*) FROM staff"}},
            "required": ["query"],
        }),
    }
}

/// A stateless session on one database.
pub struct SqlSession(Arc<SqlDatabase>);

impl SqlSession {
    /// Returns a session on this database.
    pub fn new(database: Arc<SqlDatabase>) -> Self {
        Self(database)
    }
}

impl ToolSession for SqlSession {
    fn submit(&mut self, arguments: &Value) -> PendingToolResult {
        let query = match text_argument(NAME, "query", arguments) {
            Err(error) => return PendingToolResult::ready(error),
            Ok(query) => query,
        };
        PendingToolResult::ready(match self.0.query(query) {
            Ok(text) => ToolResult::ok(text),
            Err(QueryFailure::Query(message)) => ToolResult::error(format!("error: {message}")),
            Err(QueryFailure::Lost(message)) => ToolResult::infrastructure(format!("error: {message}")),
        })
    }
    fn fork(&self) -> Result<Box<dyn ToolSession>> {
        Ok(Box::new(Self(Arc::clone(&self.0))))
    }
}

#[cfg(test)]
mod tests;
