//! The `sql` tool: one query on a small SQLite database, read-only.
//!
//! A result has one row a line, values joined by `|`, no header, as SQLite's own shell prints it. The database is an environment's
//! ([`database`]), so the environment opens the sessions itself. Forks of an episode share one database, because nobody can change
//! it. A query is stopped after a number of steps of SQLite's machine, never by a clock, and sees neither clock nor chance
//! ([`guard`], [`dates`]): the same query gives the same text always. Refuses: everything but one `SELECT`, `WITH` or `VALUES`.

pub mod database;
pub(crate) mod dates;
pub(crate) mod guard;

pub use database::{Database, DatabaseData, Failure, SqlLimits};

use crate::tools::tool::text_argument;
use crate::tools::{Ticket, ToolResult, ToolSession, ToolSpec};
use serde_json::{Value, json};
use std::sync::Arc;
use trainyard_core::Result;

/// The name in calls.
pub const NAME: &str = "sql";

const DESCRIPTION: &str = "Runs one SELECT on the SQLite database and returns its rows, one a line, values joined by `|`. \
Read-only; no current time, no random numbers.";

/// The tool as the model is told about it.
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

/// Reads one database; there is nothing to remember.
pub struct SqlSession(Arc<Database>);

impl SqlSession {
    pub fn new(database: Arc<Database>) -> Self {
        Self(database)
    }
}

impl ToolSession for SqlSession {
    fn submit(&mut self, arguments: &Value) -> Ticket {
        let query = match text_argument(NAME, "query", arguments) {
            Err(refused) => return Ticket::ready(refused),
            Ok(query) => query,
        };
        Ticket::ready(match self.0.query(query) {
            Ok(text) => ToolResult::ok(text),
            Err(Failure::Query(message)) => ToolResult::error(format!("error: {message}")),
            Err(Failure::Lost(message)) => ToolResult::infrastructure(format!("error: {message}")),
        })
    }
    fn fork(&self) -> Result<Box<dyn ToolSession>> {
        Ok(Box::new(Self(Arc::clone(&self.0))))
    }
}

#[cfg(test)]
mod tests;
