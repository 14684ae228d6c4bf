//! Implements `artifacts lineage`: what a row or an artifact was made from, and what was made from it.

use super::rows::position_of;
use crate::args::{LineageArgs, OutputFormat};
use crate::exit::CliExit;
use crate::output::human::{print_json, print_text};
use crate::output::lineage;
use crate::session::AppSession;
use trainyard_core::{Error, Result};
use trainyard_views::find::{self, ResolvedOutput};
use trainyard_views::{lineage as stages, row_lineage, table};

/// Prints the lineage of the artifact, or of its row. Errors: invalid (no such artifact or row), those of the store.
pub fn run(session: &AppSession, args: &LineageArgs, format: OutputFormat) -> Result<CliExit> {
    if args.forward {
        return forward(session, args, format);
    }
    let found = session.block_on(find::artifact(&session.store, &args.artifact))?;
    let Some(row) = row(session, args, &found)? else {
        let made = session.block_on(stages::of_stage(&session.store, found.manifest))?;
        return print(&made, &lineage::stages(&made), format);
    };
    let tree = session.block_on(row_lineage::sources(&session.store, &args.artifact, found, row))?;
    print(&tree, &lineage::tree(&tree), format)
}

fn row(session: &AppSession, args: &LineageArgs, found: &ResolvedOutput) -> Result<Option<usize>> {
    match (&args.id, args.row) {
        (Some(id), _) => {
            let table = session.block_on(table::open(&session.store, &args.artifact, found))?;
            position_of(&args.artifact, &table, id).map(Some)
        }
        (None, row) => Ok(row),
    }
}

fn forward(session: &AppSession, args: &LineageArgs, format: OutputFormat) -> Result<CliExit> {
    let (found, view, stage) = session.block_on(find::artifact_in_run(&session.store, &args.artifact))?;
    let row = row(session, args, &found)?
        .ok_or_else(|| Error::invalid("`--forward` walks from a row").help("add `--row N` or `--id ID`"))?;
    let made = row_lineage::descendants(&session.store, &args.artifact, found, (view, stage), row);
    let made = session.block_on(made)?;
    print(&made, &lineage::descendants(&made), format)
}

fn print(document: &impl serde::Serialize, text: &str, format: OutputFormat) -> Result<CliExit> {
    match format {
        OutputFormat::Json => print_json(document)?,
        OutputFormat::Text => print_text(text),
    }
    Ok(CliExit::Done)
}
