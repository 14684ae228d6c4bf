//! `trainyard artifacts`: list, show, query, export, gc.

mod export;
mod gc;
mod list;
mod query;
mod show;

use crate::args::{ArtifactsArgs, ArtifactsCommand};
use crate::exit::Exit;
use crate::names::Found;
use crate::session::{self, Access, Session};
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use trainyard_app::Catalogue;
use trainyard_core::{Error, Result};

/// Opens the store, to look unless something is to be deleted, and hands over to the subcommand.
pub fn run(args: &ArtifactsArgs, catalogue: &Arc<Catalogue>) -> Result<Exit> {
    let access =
        if matches!(args.command, ArtifactsCommand::Gc { delete: true }) { Access::Change } else { Access::Look };
    let session = session::open(&args.site, access, catalogue)?;
    match &args.command {
        ArtifactsCommand::List { run } => list::run(&session, run, args.format),
        ArtifactsCommand::Show { artifact, row: Some(row), .. } => show::row(&session, artifact, *row, args.format),
        ArtifactsCommand::Show { artifact, rows, .. } => show::run(&session, artifact, *rows, args.format),
        ArtifactsCommand::Query(asked) => query::run(&session, asked, args.format),
        ArtifactsCommand::Export(asked) => export::run(&session, asked, args.format),
        ArtifactsCommand::Gc { delete } => gc::run(&session, *delete, args.format),
    }
}

/// The table of an artifact, in a folder that goes away with the first value. Errors: invalid (it is not a table),
/// those of the store.
fn table_of(session: &Session, artifact: &str, found: &Found) -> Result<(TempDir, PathBuf)> {
    let output = found.output();
    if output.table.is_none() {
        return Err(Error::invalid(format!("{artifact} is a {}, not a table", output.kind))
            .help("`trainyard artifacts show` lists its files; export it into a folder"));
    }
    let folder = tempfile::tempdir().map_err(|e| Error::retryable(format!("no scratch folder: {e}")))?;
    session.block_on(session.store.fetch_output(output, folder.path()))?;
    let table = folder.path().join("data.parquet");
    Ok((folder, table))
}
