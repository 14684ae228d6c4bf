//! Runs one read-only SQL statement over a table artifact, and over other artifacts that the statement names.

use super::fetch;
use crate::args::{OutputFormat, QueryArgs};
use crate::exit::CliExit;
use crate::output::human::{print_lines, print_raw};
use crate::session::AppSession;
use std::path::PathBuf;
use trainyard_app::query_process::{AnswerFormat, QueryRequest, host};
use trainyard_app::{ScratchFolder, machine};
use trainyard_core::{Error, Result};
use trainyard_query::table_names;
use trainyard_views::find;

/// Name of the command's artifact in statements.
const SELF: &str = "self";
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
    let (_folders, tables): (Vec<_>, Vec<_>) = fetch_tables(session, artifact, statement)?.into_iter().unzip();
    let memory = args.memory.unwrap_or_else(usual_memory);
    let (format, print): (_, fn(&str)) = match format {
        OutputFormat::Text => (AnswerFormat::Text, print_lines),
        OutputFormat::Json => (AnswerFormat::Json, print_raw),
    };
    let request = QueryRequest {
        owner: std::process::id(),
        tables,
        statement: statement.clone(),
        rows: args.limit,
        format,
        memory,
    };
    print(&session.block_on(host::run_query(&request, args.timeout))?);
    Ok(CliExit::Done)
}

/// Fetches the artifact of the command, which is `self`, and those that the statement names; the former only if the
/// statement reads it, or reads no artifact. Returns the folder, name and file of each.
fn fetch_tables(
    session: &AppSession,
    artifact: &str,
    statement: &str,
) -> Result<Vec<(ScratchFolder, (String, PathBuf))>> {
    let table = |name: &str, artifact: &str| -> Result<_> {
        let found = session.block_on(find::artifact(&session.store, artifact))?;
        let (folder, path) = fetch::table(session, artifact, &found)?;
        Ok((folder, (name.to_string(), path)))
    };
    let named = table_names(statement)?;
    let others: Vec<&String> = named.iter().filter(|name| name.contains('/')).collect();
    let reads_self = named.iter().any(|name| name.eq_ignore_ascii_case(SELF));
    let mut tables = Vec::new();
    if reads_self || others.is_empty() {
        tables.push(table(SELF, artifact)?);
    } else {
        session.block_on(find::artifact(&session.store, artifact))?;
    }
    for name in others {
        tables.push(table(name, name)?);
    }
    Ok(tables)
}

/// Returns half of this machine's memory, or [`MEMORY`] if it is unknown.
fn usual_memory() -> u64 {
    match machine::memory() {
        0 => MEMORY,
        all => all / 2,
    }
}
