//! Implements `artifacts compare`: the samples of several models on one problem next to each other, or the problems
//! that one model got right and another wrong.

use crate::args::{CompareArgs, OutputFormat};
use crate::exit::CliExit;
use crate::output::human::{print_json, print_text};
use crate::output::{comparison, flips};
use crate::session::AppSession;
use trainyard_core::Result;
use trainyard_views::comparison as views;

/// Prints the comparison of the artifacts that the arguments name. Errors: invalid (an artifact without trajectories,
/// an unknown problem or model), and those of the store.
pub fn run(session: &AppSession, args: &CompareArgs, format: OutputFormat) -> Result<CliExit> {
    let compared = session.block_on(views::load(&session.store, &args.artifacts))?;
    if let Some([a, b]) = args.flips.as_deref() {
        let found = views::flips(&compared, (a.as_str(), b.as_str()), args.sample)?;
        return print(&found, &flips::text(&found, &args.artifacts), format);
    }
    let problem = args.problem.as_deref().unwrap_or_default();
    let found = views::problem(&compared, &[], problem, args.sample)?;
    print(&found, &comparison::text(&found), format)
}

fn print(document: &impl serde::Serialize, text: &str, format: OutputFormat) -> Result<CliExit> {
    match format {
        OutputFormat::Json => print_json(document)?,
        OutputFormat::Text => print_text(text),
    }
    Ok(CliExit::Done)
}
