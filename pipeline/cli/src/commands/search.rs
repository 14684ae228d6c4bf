//! Implements `trainyard search`: messages of a run's trajectories that contain a text.

use crate::args::{OutputFormat, SearchArgs};
use crate::exit::CliExit;
use crate::output::human::{print_json, print_lines, print_note};
use crate::output::search;
use crate::session::{self, Access};
use std::sync::Arc;
use trainyard_app::Catalogue;
use trainyard_app::session::home;
use trainyard_core::Result;
use trainyard_views::find;
use trainyard_views::search::{PatternKind, SearchFilters, SearchQuery};

/// Searches, and prints the hits. The store is opened for writing, because it keeps the index of the messages.
///
/// Errors: invalid (no such run, stage, role or rule, a mistake in the expression), those of the store.
pub fn run(args: &SearchArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let session = session::open(&args.site, Access::Write, catalogue)?;
    let page = session.block_on(async {
        let run = find::run(&session.store, &args.run).await?;
        let note = Arc::new(|text: &str| print_note(text));
        trainyard_views::search::search(&session.store, &run, query(args), Some(home()), note).await
    })?;
    for skipped in &page.skipped {
        print_note(&format!("skipped {}: {}", skipped.artifact, skipped.why));
    }
    match args.format {
        OutputFormat::Json => print_json(&search::document(&page))?,
        OutputFormat::Text => print_lines(&search::text(&page)),
    }
    Ok(CliExit::Done)
}

fn query(args: &SearchArgs) -> SearchQuery {
    let kind = match (args.regex, args.case) {
        (true, _) => PatternKind::Regex,
        (false, true) => PatternKind::ExactText,
        (false, false) => PatternKind::Text,
    };
    SearchQuery {
        pattern: args.pattern.clone(),
        kind,
        stage: args.stage.clone(),
        filters: SearchFilters {
            role: args.role.clone(),
            verdict: args.verdict.clone(),
            reward: args.reward,
            step: args.step,
        },
        limit: args.limit,
    }
}
