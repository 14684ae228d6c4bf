//! Implements `runs diff`: what differs between two runs, and why.

use crate::args::OutputFormat;
use crate::exit::CliExit;
use crate::output::diff;
use crate::output::human::{print_json, print_text};
use crate::session::AppSession;
use trainyard_core::{Result, SystemClock};
use trainyard_views::diff::diff_runs;
use trainyard_views::find;

/// Prints the differences of two runs. Errors: invalid (no such run), those of the store.
pub fn run(session: &AppSession, a: &str, b: &str, format: OutputFormat) -> Result<CliExit> {
    let clock = SystemClock::new();
    let found = session.block_on(async {
        let a = find::run(&session.store, a).await?;
        let b = find::run(&session.store, b).await?;
        diff_runs(&session.store, &clock, &a, &b).await
    })?;
    match format {
        OutputFormat::Json => print_json(&found)?,
        OutputFormat::Text => print_text(&diff::runs(&found)),
    }
    Ok(CliExit::Done)
}
