//! Implements `trainyard explain RUN STAGE`. The explanation of a stage's state comes from the journal, the manifest of
//! a cache hit, and the executor of an attempt that outlives engines.

use super::resource_usage;
use crate::args::{ExplainArgs, OutputFormat};
use crate::exit::CliExit;
use crate::output::human::{print_json, print_text};
use crate::output::progress::progress_text;
use crate::output::runs::interrupted;
use crate::session::{self, Access};
use serde_json::json;
use std::sync::Arc;
use trainyard_app::{Catalogue, wiring};
use trainyard_core::units::format_time;
use trainyard_core::{Result, SystemClock};
use trainyard_engine::fold::{StageStatus, StageView};
use trainyard_runtime::executors::{Executors, Handle};
use trainyard_runtime::progress::read_progress;
use trainyard_store::Store;
use trainyard_views::find;
use trainyard_views::status::is_live;

/// Reads the run's journal and prints the reasons for the stage's state.
pub fn run(args: &ExplainArgs, catalogue: &Arc<Catalogue>) -> Result<CliExit> {
    let session = session::open(&args.site, Access::Read, catalogue)?;
    let executors = wiring::executors(&session, catalogue, None)?;
    let slots = wiring::slots(&session, catalogue);
    let (stage, lines) = session.block_on(async {
        let run = find::run(&session.store, &args.run).await?;
        let view = find::view(&session.store, &run).await?;
        let stage = find::stage(&view, &args.stage)?;
        let mut lines = view.explain(&stage.stage.0);
        if stage.status == StageStatus::Hit {
            lines.extend(origin(&session.store, stage).await?);
        }
        if !is_live(&view, &SystemClock::new()) {
            lines.push(interrupted(&run));
        }
        let progress = read_progress(&session.store, &run, &view).await?;
        lines.extend(progress.get(stage.key()).map(|progress| format!("progress: {}", progress_text(progress))));
        lines.extend(resource_usage::lines(&view, stage, &run.0, slots.as_ref(), &SystemClock::new()));
        lines.extend(executor_explanation(&executors, stage).await);
        Ok((stage.clone(), lines))
    })?;
    match args.format {
        OutputFormat::Json => print_json(&json!({"stage": stage, "explanation": lines}))?,
        OutputFormat::Text => print_text(&lines.join("\n")),
    }
    Ok(CliExit::Done)
}

/// Queries the executor about the open attempt of a stage. Returns `None` without an open attempt, or if the executor
/// has no explanation.
async fn executor_explanation(executors: &Executors, stage: &StageView) -> Option<String> {
    let attempt = stage.attempts.last().filter(|attempt| attempt.outcome.is_none())?;
    let (handle, executor) = (Handle(attempt.handle.clone()?), executors.get(&attempt.pool).ok()?);
    match executor.explain(&handle).await {
        Ok(text) => text,
        // The explanation from the journal was already printed.
        Err(error) => Some(format!("the executor of pool {} cannot be queried: {error}", attempt.pool)),
    }
}

/// Returns a line that names the run and stage that published a cache hit, with the time of the publication if known.
async fn origin(store: &Store, stage: &StageView) -> Result<Option<String>> {
    let (Some(digest), Some(generation)) = (&stage.digest, stage.generation) else { return Ok(None) };
    let Some(manifest) = store.manifest_at(digest, generation).await? else { return Ok(None) };
    let by = &manifest.provenance;
    let when = match find::view(store, &by.run).await {
        Ok(view) => view.stage(&by.stage).and_then(|s| s.ended).map(|at| format!(" at {}", format_time(at))),
        // The publishing run may have been removed; the manifest remains.
        Err(_) => None,
    };
    Ok(Some(format!(
        "taken from the manifest {}, generation {generation}, which run {} published from stage {}{}",
        digest.short(),
        by.run,
        by.stage,
        when.unwrap_or_default()
    )))
}
