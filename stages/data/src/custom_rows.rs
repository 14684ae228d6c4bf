//! Requests about rows to user-defined code, shared by the rule and the scorer `process` and `http`.

use serde_json::Value;
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
    /// Effect on a skipped row, as in "row `r` stays".
    pub skipped: &'static str,
    /// Known problems by id.
    pub problems: &'a BTreeMap<String, Problem>,
    /// Receives a line about the first skipped row.
    pub log: &'a ProgramLog,
}

/// Returns the result of `read` for the response about each row, or `None` for a skipped row.
///
/// Errors: those of the peer, of `read` and, unless they are skipped, exceptions; the last two name the row.
pub fn query_rows<T>(
    asking: &RowQuery<'_>,
    rows: &[&Trajectory],
    read: impl Fn(&Trajectory, &Value) -> Result<T>,
) -> Result<Vec<Option<T>>> {
    let problems: Vec<Problem> = rows.iter().map(|row| problem(row, asking.problems)).collect();
    let correct = |row: &Trajectory| row.rewards.get("answer").is_some_and(|reward| *reward > 0.0);
    let told = rows.iter().zip(&problems);
    let items: Vec<EpisodeItem<'_>> =
        told.map(|(row, problem)| EpisodeItem::new(row, problem, correct(row), &row.rewards)).collect();
    let (mut is_told, mut answers) = (false, Vec::with_capacity(rows.len()));
    for (row, said) in rows.iter().zip(request_items(asking.peer, asking.batch, asking.op, &items)?) {
        let at = || format!("{}: row `{}`", asking.peer.place(), row.id);
        answers.push(match said {
            Ok(said) => Some(read(row, &said).map_err(|e| e.at(at()))?),
            Err(raised) if asking.on_error == ExceptionPolicy::Skip => {
                if !std::mem::replace(&mut is_told, true) {
                    let text = format!("row `{}` {}: {raised}\n{}", row.id, asking.skipped, raised.traceback);
                    (asking.log)(LogLevel::Warn, text.trim_end());
                }
                None
            }
            Err(raised) => {
                return Err(raised.error().help("mend the program, or set `on_error: skip`").at(at()));
            }
        });
    }
    Ok(answers)
}

/// Returns the problem of a row, as far as it is known.
fn problem(row: &Trajectory, known: &BTreeMap<String, Problem>) -> Problem {
    let unknown = || Problem { id: row.problem_id.clone(), level: row.level, ..Problem::default() };
    known.get(&row.problem_id).cloned().unwrap_or_else(unknown)
}
