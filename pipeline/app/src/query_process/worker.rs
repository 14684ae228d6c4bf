//! The worker's side: reads its order, confines itself, answers, ends.

use super::{AnswerFormat, QueryRequest, QueryResponse, too_large};
use crate::attempt::panic_text;
use serde_json::json;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use trainyard_core::Error;
use trainyard_envs::tools::confinement::confine;
use trainyard_query::{QueryLimits, is_out_of_memory, query};

/// The table's name in statements.
const SELF: &str = "self";

/// Runs a worker. The exit code is 0 with an answer, which may be an error, and 2 without one.
pub fn main() -> u8 {
    serve().map_or(2, |()| 0)
}

fn serve() -> io::Result<()> {
    let order: QueryRequest = serde_json::from_reader(io::stdin().lock())?;
    confine(order.memory)?;
    // If the owner died before the line above, no signal will come.
    if std::os::unix::process::parent_id() != order.owner {
        return Err(io::Error::other("nobody waits for the answer"));
    }
    let answered = catch_unwind(AssertUnwindSafe(|| answer(&order)))
        .unwrap_or_else(|panic| Err(Error::bug(format!("the statement panicked: {}", panic_text(&panic)))));
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &answered)?;
    out.flush()
}

fn answer(order: &QueryRequest) -> QueryResponse {
    let limits = QueryLimits { rows: order.rows, ..QueryLimits::default() };
    let result = query(&[(SELF, order.table.as_path())], &order.statement, limits)
        .map_err(|e| if is_out_of_memory(&e) { too_large(order.memory) } else { e })?;
    match order.format {
        AnswerFormat::Json => {
            let answer = json!({"columns": result.columns, "rows": result.rows, "truncated": result.truncated});
            serde_json::to_string_pretty(&answer).map_err(|e| Error::bug(format!("no JSON for this result: {e}")))
        }
        AnswerFormat::Text => Ok(result.to_string()),
    }
}
