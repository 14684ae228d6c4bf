//! Data that the sections of the page of a run share.

use super::query::RunQuery;
use crate::links::Links;
use crate::live::LiveRuns;
use crate::state::PageState;
use std::sync::Arc;
use trainyard_core::{AttemptNumber, RunId, StageKey};
use trainyard_engine::fold::RunView;
use trainyard_runtime::progress::reporting_attempts;

/// Running stages whose progress a page reads.
const MAX_PROGRESS: usize = 64;

/// Run and the choices of its address.
pub struct RunData<'a> {
    /// State of the pages.
    pub app: &'a PageState,
    /// Followed runs.
    pub live: &'a LiveRuns,
    /// Addresses of other pages.
    pub links: &'a Links,
    /// Run id.
    pub run: RunId,
    /// State of the run.
    pub view: Arc<RunView>,
    /// Whether the run has ended, or its writer is alive.
    pub is_live: bool,
    /// Choices of the address.
    pub query: RunQuery,
}

/// Returns the attempts of some stages that report progress.
pub fn reporting(view: &RunView, is_shown: impl Fn(&StageKey) -> bool) -> Vec<(StageKey, AttemptNumber)> {
    let all = reporting_attempts(view).into_iter();
    all.filter(|(key, _)| is_shown(key)).take(MAX_PROGRESS).collect()
}
