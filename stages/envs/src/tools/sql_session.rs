//! Implements the tool `sql`, which runs one read-only query on a small SQLite database in a worker process.
//!
//! A result has one row per line, values joined by `|`, without a header, as SQLite's shell prints it. The database
//! belongs to an environment, which opens the sessions.

use crate::tools::host::ProgramSession;
use crate::tools::sql::SqlLimits;
use crate::tools::tool::text_argument;
use crate::tools::{PendingToolResult, ToolHost, ToolLimits, ToolSession, ToolSpec};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::{Error, Result};

/// The tool's name in calls.
pub const NAME: &str = "sql";
/// Query that succeeds on every database.
const PROBE: &str = "SELECT 1";
/// Interval at which the creation of a database is waited for.
const WAIT: Duration = Duration::from_secs(60);

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
pub struct SqlSession {
    host: Arc<ToolHost>,
    program: ProgramSession,
}

impl SqlSession {
    /// Opens a session, and waits until a worker has created its database, which is JSON of a
    /// [`DatabaseData`](crate::tools::sql::DatabaseData). Errors: data, if the database cannot be created within the
    /// limits; lost, if there is no worker.
    pub fn open(host: &Arc<ToolHost>, limits: &ToolLimits, sql: SqlLimits, database: &str) -> Result<Self> {
        let program = host.open_sql(limits, sql, database)?;
        let created = program.submit(PROBE);
        let result = loop {
            if let Some(result) = created.wait(WAIT) {
                break result;
            }
        };
        let reason = result.text.trim_start_matches("error: ");
        if result.infrastructure {
            return Err(Error::lost(format!("the tool `sql` has no worker: {reason}")));
        }
        if result.error {
            let reason = reason.trim_start_matches("cannot create the database: ");
            return Err(Error::data(format!("cannot create the database: {reason}")));
        }
        Ok(Self { host: Arc::clone(host), program })
    }
}

impl ToolSession for SqlSession {
    fn submit(&mut self, arguments: &Value) -> PendingToolResult {
        match text_argument(NAME, "query", arguments) {
            Err(error) => PendingToolResult::ready(error),
            Ok(query) => self.program.submit(query),
        }
    }
    fn fork(&self) -> Result<Box<dyn ToolSession>> {
        Ok(Box::new(Self { host: Arc::clone(&self.host), program: self.program.fork() }))
    }
}
