//! One read-only SQL statement over a table artifact.

use super::fetch;
use crate::args::{Format, QueryArgs};
use crate::exit::Exit;
use crate::names;
use crate::output::human::{print_lines, print_raw};
use crate::session::Session;
use trainyard_app::machine;
use trainyard_app::query_process::{AnswerFormat, Order, host};
use trainyard_core::{Error, Result};

/// Memory of a statement if the machine's memory is unknown.
const MEMORY: u64 = 4 << 30;

/// Runs the query; `asked.words` are the artifact and the statement.
pub fn run(session: &Session, asked: &QueryArgs, format: Format) -> Result<Exit> {
    let [artifact, statement] = asked.words.as_slice() else {
        return Err(Error::invalid("a query needs an artifact and a statement").help(
            "e.g. `trainyard artifacts query latest/rl/trajectories \
                 \"select level, avg(reward) from self group by level\"`",
        ));
    };
    let found = session.block_on(names::artifact(&session.store, artifact))?;
    let (_folder, table) = fetch::table(session, artifact, &found)?;
    let memory = asked.memory.unwrap_or_else(usual_memory);
    let (format, print): (_, fn(&str)) = match format {
        Format::Text => (AnswerFormat::Text, print_lines),
        Format::Json => (AnswerFormat::Json, print_raw),
    };
    let order =
        Order { owner: std::process::id(), table, statement: statement.clone(), rows: asked.limit, format, memory };
    print(&session.block_on(host::ask(&order, asked.timeout))?);
    Ok(Exit::Done)
}

/// Returns half of this machine's memory.
fn usual_memory() -> u64 {
    match machine::memory() {
        0 => MEMORY,
        all => all / 2,
    }
}
