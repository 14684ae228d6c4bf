//! Implements `trainyard artifacts`: list, show, query, export, pin, unpin, pins, gc.

mod export;
pub(super) mod fetch;
mod gc;
mod list;
mod pins;
mod query;
mod show;

use crate::args::{ArtifactsArgs, ArtifactsCommand};
use crate::exit::CliExit;
use crate::session::{self, Access};
use std::sync::Arc;
use trainyard_app::Catalogue;
use trainyard_core::Result;

/// Opens the store, read-only unless the subcommand changes the store, and runs the subcommand.
pub fn run(args: &ArtifactsArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let session = session::open(&args.site, access(&args.command), catalogue)?;
    match &args.command {
        ArtifactsCommand::List { run } => list::run(&session, run, args.format),
        ArtifactsCommand::Show { artifact, row: Some(row), .. } => show::row(&session, artifact, *row, args.format),
        ArtifactsCommand::Show { artifact, rows, metrics, .. } => {
            show::run(&session, artifact, show::Shown { rows: *rows, metrics: *metrics }, args.format)
        }
        ArtifactsCommand::Query(options) => query::run(&session, options, args.format),
        ArtifactsCommand::Export(options) => export::run(&session, options, catalogue, args.format),
        ArtifactsCommand::Gc(options) => gc::run(&session, options, args.format),
        ArtifactsCommand::Pin { artifact, note } => pins::pin(&session, artifact, note.clone(), args.format),
        ArtifactsCommand::Unpin { artifact } => pins::unpin(&session, artifact, args.format),
        ArtifactsCommand::Pins => pins::list(&session, args.format),
    }
}

fn access(command: &ArtifactsCommand) -> Access {
    match command {
        ArtifactsCommand::Gc(options) if options.dry_run => Access::Read,
        ArtifactsCommand::Gc(_) | ArtifactsCommand::Pin { .. } | ArtifactsCommand::Unpin { .. } => Access::Write,
        _ => Access::Read,
    }
}
