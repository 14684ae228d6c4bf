//! Runs queries on an in-memory SQLite database, which is filled once from data and then only read, within limits.
//!
//! SQLite's instruction count limits queries, so that an endless query stops at the same instruction on every machine
//! and its result may enter an update. One instruction may still take long or much memory (`LIKE`, a materialized
//! table), so untrusted queries run in a worker process (`sessions`), which bounds both. A connection serves one query
//! at a time.

use crate::tools::sql::budget::{STEPS_PER_CHECK, StatementBudget};
use crate::tools::sql::{authorizer, dates};
use rusqlite::limits::Limit;
use rusqlite::types::{Value as Cell, ValueRef};
use rusqlite::{Connection, Error as Sqlite, ErrorCode, Row, params_from_iter};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use trainyard_core::{Error, Result};

/// Maximum number of SQLite instructions of the script that creates a database.
const SCRIPT_STEPS: u64 = 100_000_000;
/// Maximum size of one text, blob or row in bytes.
const MAX_VALUE_BYTES: i32 = 1 << 16;
/// Maximum length of a query in bytes.
const MAX_QUERY_BYTES: i32 = 1 << 14;
/// Maximum length of a pattern of `LIKE` or `GLOB` in bytes. A match takes one instruction, and its time grows with the
/// product of both lengths.
const MAX_PATTERN_BYTES: i32 = 100;
/// Last line of a truncated result.
const MORE: &str = "... (more rows)";
/// The result of a query without rows.
const NO_ROWS: &str = "(no rows)";

/// Error for text that is not a single reading query.
const ONLY_READING: &str = "only one SELECT is allowed; nothing can be changed";

/// The contents of a database.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseData {
    /// SQL that creates tables, indexes and views; it may insert rows.
    pub schema: String,
    /// Rows by table, values in column order: numbers, texts, booleans (stored as 0 and 1) or nulls.
    #[serde(default)]
    pub rows: BTreeMap<String, Vec<Vec<Value>>>,
}

/// Limits of one query. None depends on time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SqlLimits {
    /// Maximum number of SQLite instructions, checked every thousand.
    pub steps: u64,
    /// Maximum number of rows; a last line notes omitted rows.
    pub rows: usize,
    /// Maximum size of the result in bytes; a last line notes omitted rows.
    pub output_bytes: usize,
}

/// Reason why a query failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueryFailure {
    /// The query is invalid or exceeds a limit; the agent sees the message.
    Query(String),
    /// The query exceeds the time limit.
    Late,
    /// The process has no memory left.
    OutOfMemory,
}

/// A filled database.
pub struct SqlDatabase {
    connection: Mutex<Connection>,
    limits: SqlLimits,
    /// Budget of the current query.
    budget: Arc<StatementBudget>,
}

impl SqlDatabase {
    /// Creates the database, fills it and makes it read-only. `budget` bounds the time of the script and of each query.
    /// Fails with kind `data` if the schema or the rows are invalid or the script takes too long, and with kind
    /// `retryable` without memory.
    pub fn load(data: &DatabaseData, limits: SqlLimits, budget: StatementBudget) -> Result<Self> {
        let connection = Connection::open_in_memory()
            .map_err(|e| Error::retryable(format!("cannot open an in-memory database: {e}")))?;
        let budget = Arc::new(budget);
        budget.begin(SCRIPT_STEPS);
        let spent = Arc::clone(&budget);
        connection
            .progress_handler(STEPS_PER_CHECK as i32, Some(move || spent.spend()))
            .map_err(|e| Error::bug(format!("cannot limit the database: {e}")))?;
        fill(&connection, data)?;
        make_read_only(&connection).map_err(|e| Error::bug(format!("cannot make the database read-only: {e}")))?;
        Ok(Self { connection: Mutex::new(connection), limits, budget })
    }
    /// Runs one query and returns its rows as text, truncated with a note at the limits. Waits while another thread
    /// runs a query.
    pub fn query(&self, query: &str) -> Result<String, QueryFailure> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        self.budget.begin(self.limits.steps);
        self.read(&connection, query)
    }
    fn read(&self, connection: &Connection, query: &str) -> Result<String, QueryFailure> {
        let failed = |e: Sqlite| self.failure(&e);
        let mut statement = connection.prepare(query).map_err(failed)?;
        if !statement.readonly() || statement.is_explain() != 0 || statement.column_count() == 0 {
            return Err(QueryFailure::Query(ONLY_READING.to_string()));
        }
        if statement.parameter_count() > 0 {
            return Err(QueryFailure::Query("the query has parameters; write the values themselves".to_string()));
        }
        let columns = statement.column_count();
        let mut rows = statement.query([]).map_err(failed)?;
        let (mut text, mut count) = (String::new(), 0);
        while let Some(row) = rows.next().map_err(failed)? {
            let line = line(row, columns).map_err(failed)?;
            let fits = text.len() + usize::from(count > 0) + line.len() <= self.limits.output_bytes;
            if count == 0 && !fits {
                return Err(QueryFailure::Query(format!(
                    "a row is longer than {} bytes; ask for less",
                    self.limits.output_bytes
                )));
            }
            if !fits || count == self.limits.rows {
                text.push('\n');
                text.push_str(MORE);
                return Ok(text);
            }
            if count > 0 {
                text.push('\n');
            }
            text.push_str(&line);
            count += 1;
        }
        Ok(if count == 0 { NO_ROWS.to_string() } else { text })
    }
    fn failure(&self, error: &Sqlite) -> QueryFailure {
        let stopped = || format!("the query was stopped after {} steps; ask for less", self.limits.steps);
        QueryFailure::Query(match error {
            Sqlite::SqliteFailure(e, message) => match e.code {
                ErrorCode::OperationInterrupted if self.budget.is_late() => return QueryFailure::Late,
                ErrorCode::OperationInterrupted => stopped(),
                ErrorCode::AuthorizationForStatementDenied => ONLY_READING.to_string(),
                ErrorCode::OutOfMemory => return QueryFailure::OutOfMemory,
                _ => message.clone().unwrap_or_else(|| e.to_string()),
            },
            // `Display` of this error repeats the whole query.
            Sqlite::SqlInputError { msg, .. } => msg.clone(),
            Sqlite::MultipleStatement => "one query at a time".to_string(),
            other => other.to_string(),
        })
    }
}

fn fill(connection: &Connection, data: &DatabaseData) -> Result<()> {
    let invalid = |e: Sqlite| match e.sqlite_error_code() {
        Some(ErrorCode::OutOfMemory) => Error::retryable("cannot create the database: out of memory"),
        Some(ErrorCode::OperationInterrupted) => {
            Error::data("cannot create the database: its `schema` takes too long").help("write the rows into `rows`")
        }
        _ => Error::data(format!("cannot create the database: {e}")),
    };
    // Tables may come in any order; temporary data stays off the disk.
    connection.execute_batch("PRAGMA foreign_keys = OFF; PRAGMA temp_store = MEMORY;").map_err(invalid)?;
    dates::install(connection).map_err(invalid)?;
    connection.authorizer(Some(authorizer::authorize_script)).map_err(invalid)?;
    connection.execute_batch(&data.schema).map_err(invalid)?;
    for (table, rows) in &data.rows {
        let Some(first) = rows.first() else { continue };
        let marks = vec!["?"; first.len()].join(", ");
        let insert = format!("INSERT INTO \"{}\" VALUES ({marks})", table.replace('"', "\"\""));
        let mut statement = connection.prepare(&insert).map_err(invalid)?;
        for (number, row) in rows.iter().enumerate() {
            let cells = row.iter().map(cell).collect::<Option<Vec<_>>>();
            let cells = cells.filter(|cells| cells.len() == first.len()).ok_or_else(|| {
                Error::data(format!(
                    "row {number} of table `{table}` has a different number of columns than the first row, or a value \
                     that is a list or map"
                ))
                .help("give every row the same number of values: numbers, texts, booleans or nulls")
            })?;
            statement.execute(params_from_iter(cells)).map_err(invalid)?;
        }
    }
    Ok(())
}

fn cell(value: &Value) -> Option<Cell> {
    match value {
        Value::Null => Some(Cell::Null),
        Value::Bool(b) => Some(Cell::Integer(i64::from(*b))),
        Value::Number(n) => n.as_i64().map(Cell::Integer).or_else(|| n.as_f64().map(Cell::Real)),
        Value::String(text) => Some(Cell::Text(text.clone())),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// Permits only reading from now on, and limits the sizes of queries, patterns and values.
fn make_read_only(connection: &Connection) -> rusqlite::Result<()> {
    connection.authorizer(Some(authorizer::authorize_query))?;
    for (limit, max) in [
        (Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES),
        (Limit::SQLITE_LIMIT_SQL_LENGTH, MAX_QUERY_BYTES),
        (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MAX_PATTERN_BYTES),
        (Limit::SQLITE_LIMIT_ATTACHED, 0),
        (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
        (Limit::SQLITE_LIMIT_EXPR_DEPTH, 200),
        (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 100),
    ] {
        connection.set_limit(limit, max)?;
    }
    Ok(())
}

/// Returns one row, values joined by `|`.
fn line(row: &Row<'_>, columns: usize) -> rusqlite::Result<String> {
    let mut line = String::new();
    for column in 0..columns {
        if column > 0 {
            line.push('|');
        }
        match row.get_ref(column)? {
            ValueRef::Null => line.push_str("NULL"),
            ValueRef::Integer(n) => line.push_str(&n.to_string()),
            // The shortest text that reads back as this float, with a point or exponent: 2.0, 0.1, 1e21.
            ValueRef::Real(x) => line.push_str(&format!("{x:?}")),
            ValueRef::Text(text) => line.push_str(&String::from_utf8_lossy(text)),
            ValueRef::Blob(bytes) => {
                let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
                line.push_str(&format!("x'{digits}'"));
            }
        }
    }
    Ok(line)
}
