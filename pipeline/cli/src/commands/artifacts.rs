//! `trainyard artifacts`: list, show, query, export, gc.

mod export;
mod fetch;
mod gc;
mod list;
mod query;
mod show;

use crate::args::{ArtifactsArgs, ArtifactsCommand};
use crate::exit::Exit;
use crate::session::{self, Access};
use std::sync::Arc;
use trainyard_app::Catalogue;
use trainyard_core::Result;

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
