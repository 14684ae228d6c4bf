//! Runs the worker of a statement: it reads its request, limits its memory, writes its response, and ends.

use super::{AnswerFormat, QueryRequest, QueryResponse, too_large};
use crate::attempt::panic_text;
use serde_json::json;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use trainyard_core::Error;
use trainyard_envs::tools::confinement::confine;
use trainyard_frames::query;
use trainyard_query::{QueryLimits, is_out_of_memory};

/// Runs a worker and returns its exit code: 0 after a response, which may be an error, and 2 otherwise.
pub fn main() -> u8 {
    serve().map_or(2, |()| 0)
}

fn serve() -> io::Result<()> {
    let request: QueryRequest = serde_json::from_reader(io::stdin().lock())?;
    confine(request.memory)?;
    // If the owner died before this line, the worker gets no signal of its death.
    if std::os::unix::process::parent_id() != request.owner {
        return Err(io::Error::other("the process that sent the request has ended"));
    }
    let response = catch_unwind(AssertUnwindSafe(|| run(&request)))
        .unwrap_or_else(|panic| Err(Error::bug(format!("the statement panicked: {}", panic_text(&panic)))));
    let mut out = io::stdout().lock();
    serde_json::to_writer(&mut out, &response)?;
    out.flush()
}

fn run(request: &QueryRequest) -> QueryResponse {
    let limits = QueryLimits { rows: request.rows, ..QueryLimits::default() };
    let tables: Vec<(&str, &Path)> =
        request.tables.iter().map(|(name, path)| (name.as_str(), path.as_path())).collect();
    let result = query(&tables, &request.statement, limits)
        .map_err(|e| if is_out_of_memory(&e) { too_large(request.memory) } else { e })?;
    match request.format {
        AnswerFormat::Json => {
            let document = json!({"columns": result.columns, "rows": result.rows, "truncated": result.truncated});
            serde_json::to_string_pretty(&document).map_err(|e| Error::bug(format!("the result has no JSON form: {e}")))
        }
        AnswerFormat::Text => Ok(result.to_string()),
    }
}
