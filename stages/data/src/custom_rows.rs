//! Sends requests about rows to user-defined programs and services, for the rules and the step scorers `process` and
//! `http`.

use serde_json::Value;
use std::cell::Cell;
use std::collections::BTreeMap;
use trainyard_core::Result;
use trainyard_core::attempt::LogLevel;
use trainyard_envs::programs::{BatchSize, EpisodeItem, ExceptionPolicy, request_items};
use trainyard_process::{ProgramLog, ProgramService};
use trainyard_tables::{Problem, Trajectory};

/// Settings of requests about rows.
pub struct RowQuery<'a> {
    /// Program or service that responds.
    pub peer: &'a dyn ProgramService,
    /// Operation of the protocol.
    pub op: &'static str,
    /// Maximum rows in one request.
    pub batch: BatchSize,
    /// Handling of an exception.
    pub on_error: ExceptionPolicy,
    /// Text about a skipped row in the log, such as "stays" in "row `r` stays".
    pub skipped: &'static str,
    /// Known problems by id.
    pub problems: &'a BTreeMap<String, Problem>,
    /// Receives a line about the first skipped row.
    pub log: &'a ProgramLog,
    /// Whether a skipped row was logged.
    pub is_logged: &'a Cell<bool>,
}

/// Columns of trajectories that programs receive.
pub const EPISODE_COLUMNS: [&str; 8] =
    ["problem_id", "messages", "answer", "tool_calls", "tool_errors", "turns", "stop_reason", "rewards"];

/// Sends a request about each row and returns the results of `read` for the responses, or `None` for a skipped row.
///
/// A row is skipped if its request raises an exception and `on_error` permits that. The first skipped row is logged.
///
/// Errors: those of the peer, those of `read`, and exceptions of rows that are not skipped; the last two name the row.
pub fn query_rows<T>(
    query: &RowQuery<'_>,
    rows: &[&Trajectory],
    read: impl Fn(&Trajectory, &Value) -> Result<T>,
) -> Result<Vec<Option<T>>> {
    let problems: Vec<Problem> = rows.iter().map(|row| problem(row, query.problems)).collect();
    let correct = |row: &Trajectory| row.rewards.get("answer").is_some_and(|reward| *reward > 0.0);
    let rows_with_problems = rows.iter().zip(&problems);
    let items: Vec<EpisodeItem<'_>> =
        rows_with_problems.map(|(row, problem)| EpisodeItem::new(row, problem, correct(row), &row.rewards)).collect();
    let mut answers = Vec::with_capacity(rows.len());
    for (row, response) in rows.iter().zip(request_items(query.peer, query.batch, query.op, &items)?) {
        let at = || format!("{}: row `{}`", query.peer.place(), row.id);
        answers.push(match response {
            Ok(response) => Some(read(row, &response).map_err(|e| e.at(at()))?),
            Err(exception) if query.on_error == ExceptionPolicy::Skip => {
                if !query.is_logged.replace(true) {
                    let text = format!("row `{}` {}: {exception}\n{}", row.id, query.skipped, exception.traceback);
                    (query.log)(LogLevel::Warn, text.trim_end());
                }
                None
            }
            Err(exception) => {
                return Err(exception.error().help("fix the program, or set `on_error: skip`").at(at()));
            }
        });
    }
    Ok(answers)
}

/// Returns the known problem of a row, or else a problem with only the id and the level of the row.
fn problem(row: &Trajectory, known: &BTreeMap<String, Problem>) -> Problem {
    let unknown = || Problem { id: row.problem_id.clone(), level: row.level, ..Problem::default() };
    known.get(&row.problem_id).cloned().unwrap_or_else(unknown)
}
