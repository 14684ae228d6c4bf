//! Data that the sections of the page of a stage share.

use crate::links::Links;
use crate::live::LiveRuns;
use crate::state::PageState;
use serde::Deserialize;
use std::sync::Arc;
use trainyard_core::{Result, RunId, StageKey};
use trainyard_engine::fold::{RunView, StageView};
use trainyard_views::find;

/// Parameters of the address. All are optional.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct StageQuery {
    /// Name of the only section that is returned.
    pub part: Option<String>,
    /// Attempt whose log is shown; the last one without a number.
    #[serde(default)]
    pub attempt: String,
    /// Text that the shown lines of the log contain.
    #[serde(default)]
    pub find: String,
    /// Place of the first line of the log.
    #[serde(default)]
    pub at: String,
    /// Weight of the past in smoothed curves.
    #[serde(default)]
    pub smooth: String,
    /// `1` for a logarithmic axis.
    #[serde(default)]
    pub log: String,
    /// `all`, or a part of the names of shown metrics.
    #[serde(default)]
    pub metrics: String,
}

/// Data that the sections of a page need.
pub struct StageData<'a> {
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
    /// Key of a stage of the run.
    pub key: StageKey,
    /// Choices of the address.
    pub query: StageQuery,
}

impl StageData<'_> {
    /// Returns the stage. Errors: invalid (the run has no stage with this key).
    pub fn stage(&self) -> Result<&StageView> {
        find::stage(&self.view, &self.key.0)
    }
    /// Returns the address of the page.
    pub fn address(&self) -> String {
        self.links.stage(&self.run.0, &self.key.0)
    }
}
