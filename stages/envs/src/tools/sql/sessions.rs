//! Keeps the databases of one worker of the tool `sql`, a session each.
//!
//! The worker's process bounds what SQLite's instruction count does not see: its address space, SQLite's heap, and the
//! time of a query, at whose end the parent kills it. It can open no file and no socket, and start no process or thread
//! (`crate::tools::confinement::isolation`), whatever SQLite makes of a query. A query without memory ends the process;
//! the parent then runs it alone in a fresh one, so whether it fails depends on the query and its database only.

use super::budget::StatementBudget;
use super::database::{DatabaseData, QueryFailure, SqlDatabase, SqlLimits};
use crate::tools::ToolLimits;
use crate::tools::wire::{CallStatus, SessionRecipe, ToolWorkerReply};
use crate::tools::worker_sessions::WorkerSessions;
use rusqlite::Connection;
use std::collections::HashMap;
use std::io;
use trainyard_core::{Error, ErrorKind};

/// Maximum number of databases of a worker. The least recently used one is dropped first, and is created again for its
/// next query.
const MAX_DATABASES: usize = 256;

/// Databases by session.
pub struct SqlSessions {
    limits: ToolLimits,
    sql: SqlLimits,
    open: HashMap<u64, OpenDatabase>,
    /// Number of queries so far.
    count: u64,
}

struct OpenDatabase {
    /// The database, or the reason why it could not be created.
    database: Result<SqlDatabase, String>,
    used: u64,
}

impl SqlSessions {
    pub fn new(limits: ToolLimits, sql: SqlLimits) -> Self {
        Self { limits, sql, open: HashMap::new(), count: 0 }
    }
    /// Creates the sessions, and limits the heap of SQLite in this process, permanently, to three quarters of the
    /// memory of the worker.
    pub fn confined(limits: ToolLimits, sql: SqlLimits) -> io::Result<Self> {
        let heap = limits.memory_bytes / 4 * 3;
        let limited = Connection::open_in_memory()
            .and_then(|connection| connection.execute_batch(&format!("PRAGMA hard_heap_limit = {heap}")));
        limited.map_err(io::Error::other)?;
        Ok(Self::new(limits, sql))
    }
    fn create(&self, recipe: &SessionRecipe) -> Result<SqlDatabase, String> {
        let data = recipe.snapshot.as_deref().unwrap_or_default();
        let data: DatabaseData =
            serde_json::from_slice(data).map_err(|e| format!("the database cannot be read: {e}"))?;
        SqlDatabase::load(&data, self.sql, StatementBudget::within(self.limits.time()))
            .map_err(|e| creation_failure(&e))
    }
    fn make_room(&mut self) {
        while self.open.len() >= MAX_DATABASES {
            let oldest = self.open.iter().min_by_key(|(_, open)| open.used).map(|(session, _)| *session);
            let Some(oldest) = oldest else { return };
            self.open.remove(&oldest);
        }
    }
}

impl WorkerSessions for SqlSessions {
    fn open(&mut self, session: u64, recipe: &SessionRecipe) {
        self.close(session);
        self.make_room();
        let database = self.create(recipe);
        self.open.insert(session, OpenDatabase { database, used: self.count });
    }
    fn close(&mut self, session: u64) {
        self.open.remove(&session);
    }
    fn call(&mut self, session: u64, query: &str) -> ToolWorkerReply {
        self.count += 1;
        let Some(open) = self.open.get_mut(&session) else {
            return ToolWorkerReply::without_session(CallStatus::Missing);
        };
        open.used = self.count;
        let answered = match &open.database {
            Ok(database) => database.query(query),
            Err(reason) => Err(QueryFailure::Query(reason.clone())),
        };
        let (status, text) = match answered {
            Ok(text) => (CallStatus::Succeeded, text),
            Err(QueryFailure::Query(message)) => (CallStatus::Failed, format!("error: {message}")),
            Err(QueryFailure::Late) => {
                let text = format!("TimeoutError: the call ran longer than {} ms", self.limits.time_millis);
                (CallStatus::TimedOut, text)
            }
            Err(QueryFailure::OutOfMemory) => end_without_memory(),
        };
        ToolWorkerReply { text, ..ToolWorkerReply::without_session(status) }
    }
}

/// Returns the reason why a database could not be created. Ends the process if it has no memory left.
fn creation_failure(error: &Error) -> String {
    if error.kind == ErrorKind::Retryable {
        end_without_memory();
    }
    match &error.help {
        Some(help) => format!("{}; {help}", error.message),
        None => error.message.clone(),
    }
}

fn end_without_memory() -> ! {
    std::process::exit(monty_types::OOM_EXIT_CODE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::confinement::support;
    use crate::tools::confinement::system_calls::SystemCalls;
    use serde_json::{Value, json};
    use std::sync::Arc;

    const SQL: SqlLimits = SqlLimits { steps: 100_000, rows: 5, output_bytes: 200 };

    fn recipe(data: &Value) -> SessionRecipe {
        SessionRecipe { snapshot: Some(Arc::from(data.to_string().into_bytes())), history: Vec::new() }
    }

    fn text(sessions: &mut SqlSessions, session: u64, query: &str) -> (CallStatus, String) {
        let reply = sessions.call(session, query);
        (reply.status, reply.text)
    }

    #[test]
    fn sessions_have_databases_of_their_own() {
        let mut sessions = SqlSessions::new(ToolLimits::default(), SQL);
        for n in [1, 2] {
            sessions.open(n, &recipe(&json!({"schema": "CREATE TABLE t(x)", "rows": {"t": [[n]]}})));
        }
        assert_eq!(text(&mut sessions, 1, "SELECT x FROM t"), (CallStatus::Succeeded, "1".to_string()));
        assert_eq!(text(&mut sessions, 2, "SELECT x FROM t"), (CallStatus::Succeeded, "2".to_string()));
        assert_eq!(text(&mut sessions, 2, "SELECT y"), (CallStatus::Failed, "error: no such column: y".to_string()));
        sessions.close(1);
        assert_eq!(sessions.call(1, "SELECT 1").status, CallStatus::Missing);
        sessions.open(3, &recipe(&json!({"schema": "CREATE TABL"})));
        let (status, reason) = text(&mut sessions, 3, "SELECT 1");
        assert!(status == CallStatus::Failed && reason.contains("cannot create the database"), "{reason}");
    }

    #[test]
    fn queries_need_no_more_than_computing() {
        if !support::has_seccomp() {
            eprintln!("skipped: no seccomp");
            return;
        }
        let restricted = std::thread::spawn(|| {
            SystemCalls::Computing.restrict_thread().unwrap();
            let mut sessions = SqlSessions::new(ToolLimits::default(), SqlLimits { steps: 10_000_000, ..SQL });
            let rows: Vec<[u32; 1]> = (0..20_000).map(|n| [n]).collect();
            let schema = "CREATE TABLE t(x); CREATE INDEX i ON t(x); CREATE TEMP TABLE u AS SELECT 1 AS y;";
            sessions.open(1, &recipe(&json!({"schema": schema, "rows": {"t": rows}})));
            let sorted = "SELECT sum(x), count(y) FROM (SELECT x, y FROM t, u ORDER BY x DESC, y LIMIT 20000)";
            text(&mut sessions, 1, sorted)
        });
        assert_eq!(restricted.join().unwrap(), (CallStatus::Succeeded, "199990000|20000".to_string()));
    }

    #[test]
    fn least_recently_used_database_is_dropped() {
        let mut sessions = SqlSessions::new(ToolLimits::default(), SQL);
        let empty = recipe(&json!({"schema": ""}));
        for session in 0..MAX_DATABASES as u64 {
            sessions.open(session, &empty);
            sessions.call(session, "SELECT 1");
        }
        sessions.call(0, "SELECT 1");
        sessions.open(1_000, &empty);
        assert_eq!(sessions.call(1, "SELECT 1").status, CallStatus::Missing);
        assert_eq!(text(&mut sessions, 0, "SELECT 1"), (CallStatus::Succeeded, "1".to_string()));
    }

    #[test]
    fn late_query_is_no_error_of_the_agent() {
        let limits = ToolLimits { time_millis: 0, ..ToolLimits::default() };
        let mut sessions = SqlSessions::new(limits, SqlLimits { steps: 100_000_000, ..SQL });
        sessions.open(1, &recipe(&json!({"schema": ""})));
        let endless = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT COUNT(*) FROM t";
        assert_eq!(sessions.call(1, endless).status, CallStatus::TimedOut);
    }
}
