//! All pages: one file each, listed in [`all`].

mod actions;
mod artifact;
mod artifact_diff;
mod artifact_parts;
mod changes;
mod compare;
#[cfg(test)]
mod data_store;
mod kinds;
mod lineage;
mod recipes;
mod rollout;
mod rollout_parts;
mod rollouts;
mod run;
mod run_diff;
mod runs;
mod schedules;
mod stage;
mod statement;
mod sweep;
mod table;
mod tags;
#[cfg(test)]
mod testing;
mod verdicts;
mod workflows;

use crate::live::{self, LiveRuns};
use crate::state::PageState;
use axum::Extension;
use axum::routing::{MethodRouter, get, post};
use std::sync::Arc;

/// A page and its handler.
pub struct Page {
    /// Path, with parameters in braces.
    pub path: &'static str,
    /// Handler of its requests.
    pub handler: MethodRouter<Arc<PageState>>,
}

fn page(path: &'static str, handler: MethodRouter<Arc<PageState>>) -> Page {
    Page { path, handler }
}

/// Returns all pages.
pub fn all() -> Vec<Page> {
    let shared = Extension(Arc::new(LiveRuns::default()));
    vec![
        page("/", get(runs::list)),
        page("/runs/{run}", get(run::show).layer(shared.clone())),
        page("/runs/{run}/events", get(live::events).layer(shared.clone())),
        page("/runs/{run}/stages/{stage}", get(stage::show).layer(shared)),
        page("/diff", get(run_diff::choose)),
        page("/runs/{run}/diff/{other}", get(run_diff::show)),
        page("/runs/{run}/sweep", get(sweep::show)),
        page("/runs/{run}/tags", get(tags::show).post(tags::change)),
        page("/artifacts/{digest}/{output}/compare", get(compare::show)),
        page("/artifacts/{digest}/{output}/diff", get(artifact_diff::choose)),
        page("/artifacts/{digest}/{output}/diff/{other_digest}/{other_output}", get(artifact_diff::show)),
        page("/recipes", get(recipes::list)),
        page("/recipes/{name}", get(recipes::show)),
        page("/stages", get(kinds::list)),
        page("/stages/{kind}", get(kinds::show)),
        page("/artifacts/{digest}/{output}/rollouts", get(rollouts::list)),
        page("/artifacts/{digest}/{output}/groups/{group}", get(rollouts::group)),
        page("/artifacts/{digest}/{output}/problems/{problem}", get(rollouts::problem)),
        page("/artifacts/{digest}/{output}/rows/{row}", get(rollout::show).post(rollout::add_note)),
        page("/artifacts/{digest}/{output}/raw/{row}/{message}", get(rollout::raw)),
        page("/runs/{run}/cancel", post(actions::cancel)),
        page("/runs/{run}/resume", post(actions::resume)),
        page("/schedules", get(schedules::list)),
        page("/schedules/{name}", get(schedules::show)),
        page("/schedules/{name}/pause", post(schedules::pause)),
        page("/schedules/{name}/resume", post(schedules::resume)),
        page("/schedules/{name}/trigger", post(schedules::trigger)),
        page("/schedules/{name}/backfills", post(schedules::backfill)),
        page("/schedules/{name}/backfills/{backfill}/cancel", post(schedules::cancel_backfill)),
        page("/workflows", get(workflows::list)),
        page("/workflows/{file}", get(workflows::show)),
        page("/workflows/{file}/runs", post(workflows::start)),
        page("/artifacts", get(artifact::list)),
        page("/artifacts/{digest}/{output}", get(artifact::show)),
        page("/artifacts/{digest}/{output}/rows", get(table::rows)),
        page("/artifacts/{digest}/{output}/verdicts", get(verdicts::show)),
        page("/artifacts/{digest}/{output}/query", get(statement::show)),
        page("/artifacts/{digest}/{output}/lineage", get(lineage::show)),
    ]
}
