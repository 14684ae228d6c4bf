//! Implements `trainyard artifacts`: list, show, compare, diff, query, lineage, export, pin, unpin, pins, note, notes,
//! unnote, gc.

mod compare;
mod content;
mod diff;
mod export;
pub(super) mod fetch;
mod gc;
mod lineage;
mod list;
mod notes;
mod pins;
mod query;
mod rows;
mod show;
mod tokens;

use crate::args::{ArtifactsArgs, ArtifactsCommand, OutputFormat, ShowArgs};
use crate::exit::CliExit;
use crate::session::{self, Access, AppSession};
use rows::RowSelector;
use std::sync::Arc;
use trainyard_app::Catalogue;
use trainyard_core::Result;

/// Opens the store, read-only unless the subcommand changes the store, and runs the subcommand.
pub fn run(args: &ArtifactsArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let session = session::open(&args.site, access(&args.command), catalogue)?;
    match &args.command {
        ArtifactsCommand::List { run } => list::run(&session, run, args.format),
        ArtifactsCommand::Show(options) => show(&session, options, args.format),
        ArtifactsCommand::Compare(options) => compare::run(&session, options, args.format),
        ArtifactsCommand::Diff(options) => diff::run(&session, options, args.format),
        ArtifactsCommand::Query(options) => query::run(&session, options, args.format),
        ArtifactsCommand::Lineage(options) => lineage::run(&session, options, args.format),
        ArtifactsCommand::Export(options) => export::run(&session, options, catalogue, args.format),
        ArtifactsCommand::Gc(options) => gc::run(&session, options, args.format),
        ArtifactsCommand::Pin { artifact, note } => pins::pin(&session, artifact, note.clone(), args.format),
        ArtifactsCommand::Unpin { artifact } => pins::unpin(&session, artifact, args.format),
        ArtifactsCommand::Pins => pins::list(&session, args.format),
        ArtifactsCommand::Note(options) => notes::add(&session, options, args.format),
        ArtifactsCommand::Notes { artifact } => notes::list(&session, artifact.as_deref(), args.format),
        ArtifactsCommand::Unnote { artifact, number, by } => {
            notes::remove(&session, artifact, *number, by.as_deref(), args.format)
        }
    }
}

/// Shows the rows that the arguments select, or else the whole artifact.
fn show(session: &AppSession, args: &ShowArgs, format: OutputFormat) -> Result<CliExit> {
    if let Some(value) = &args.tokens {
        return tokens::run(session, &args.artifact, args.row, args.id.as_deref(), value.as_deref(), format);
    }
    let position = args.row.map(RowSelector::Position);
    let id = args.id.as_deref().map(RowSelector::Id);
    let condition = args.condition.as_deref().map(|condition| RowSelector::Where(condition, args.rows));
    match position.or(id).or(condition) {
        Some(selector) => rows::run(session, &args.artifact, &selector, format),
        None => {
            let shown = show::Shown { rows: args.rows, metrics: args.metrics };
            show::run(session, &args.artifact, shown, format)
        }
    }
}

fn access(command: &ArtifactsCommand) -> Access {
    match command {
        ArtifactsCommand::Gc(options) if options.dry_run => Access::Read,
        ArtifactsCommand::Gc(_)
        | ArtifactsCommand::Pin { .. }
        | ArtifactsCommand::Unpin { .. }
        | ArtifactsCommand::Note(_)
        | ArtifactsCommand::Unnote { .. } => Access::Write,
        _ => Access::Read,
    }
}
