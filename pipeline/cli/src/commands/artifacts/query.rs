//! Runs one read-only SQL statement over a table artifact, and over other artifacts that the statement names.

use super::fetch;
use crate::args::{OutputFormat, QueryArgs};
use crate::exit::CliExit;
use crate::output::human::{print_lines, print_raw};
use crate::session::AppSession;
use std::path::PathBuf;
use trainyard_app::ScratchFolder;
use trainyard_app::query_process::{AnswerFormat, QueryRequest, host, tables_of, usual_memory};
use trainyard_core::{Error, Result};
use trainyard_views::find;

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

/// Fetches the tables that a statement reads. Returns the folder, name and file of each.
fn fetch_tables(
    session: &AppSession,
    artifact: &str,
    statement: &str,
) -> Result<Vec<(ScratchFolder, (String, PathBuf))>> {
    session.block_on(find::artifact(&session.store, artifact))?;
    let fetched = tables_of(artifact, statement)?.into_iter().map(|(name, artifact)| {
        let found = session.block_on(find::artifact(&session.store, &artifact))?;
        let (folder, path) = fetch::table(session, &artifact, &found)?;
        Ok((folder, (name, path)))
    });
    fetched.collect()
}
