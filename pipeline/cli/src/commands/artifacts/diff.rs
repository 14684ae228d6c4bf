//! Implements `artifacts diff`: what differs between two artifacts.

use crate::args::{ArtifactDiffArgs, OutputFormat};
use crate::exit::CliExit;
use crate::output::diff;
use crate::output::human::{print_json, print_text};
use crate::session::AppSession;
use trainyard_core::Result;
use trainyard_views::diff::diff_artifacts;
use trainyard_views::find;

/// Prints the differences of two artifacts. Errors: invalid (no such artifact), lost (a missing object), data (a
/// damaged file), those of the store.
pub fn run(session: &AppSession, args: &ArtifactDiffArgs, format: OutputFormat) -> Result<CliExit> {
    let found = session.block_on(async {
        let a = find::artifact(&session.store, &args.a).await?;
        let b = find::artifact(&session.store, &args.b).await?;
        diff_artifacts(&session.store, (&args.a, &a), (&args.b, &b), args.rows).await
    })?;
    match format {
        OutputFormat::Json => print_json(&found)?,
        OutputFormat::Text => print_text(&diff::artifacts(&found)),
    }
    Ok(CliExit::Done)
}
