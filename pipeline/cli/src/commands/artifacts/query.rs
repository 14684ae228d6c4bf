//! Runs one read-only SQL statement over a table artifact.

use super::fetch;
use crate::args::{OutputFormat, QueryArgs};
use crate::exit::CliExit;
use crate::names;
use crate::output::human::{print_lines, print_raw};
use crate::session::AppSession;
use trainyard_app::machine;
use trainyard_app::query_process::{AnswerFormat, QueryRequest, host};
use trainyard_core::{Error, Result};

/// Memory limit of a statement if the memory of this machine is unknown.
const MEMORY: u64 = 4 << 30;

/// Runs the statement and prints its result. `args.words` are the artifact and the statement.
pub fn run(session: &AppSession, args: &QueryArgs, format: OutputFormat) -> Result<CliExit> {
    let [artifact, statement] = args.words.as_slice() else {
        return Err(Error::invalid("a query needs an artifact and a statement").help(
            "e.g. `trainyard artifacts query latest/rl/trajectories \
                 \"select level, avg(reward) from self group by level\"`",
        ));
    };
    let found = session.block_on(names::artifact(&session.store, artifact))?;
    let (_folder, table) = fetch::table(session, artifact, &found)?;
    let memory = args.memory.unwrap_or_else(usual_memory);
    let (format, print): (_, fn(&str)) = match format {
        OutputFormat::Text => (AnswerFormat::Text, print_lines),
        OutputFormat::Json => (AnswerFormat::Json, print_raw),
    };
    let request = QueryRequest {
        owner: std::process::id(),
        table,
        statement: statement.clone(),
        rows: args.limit,
        format,
        memory,
    };
    print(&session.block_on(host::run_query(&request, args.timeout))?);
    Ok(CliExit::Done)
}

/// Returns half of this machine's memory, or [`MEMORY`] if it is unknown.
fn usual_memory() -> u64 {
    match machine::memory() {
        0 => MEMORY,
        all => all / 2,
    }
}
