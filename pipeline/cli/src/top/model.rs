//! Holds what `trainyard top` shows: a snapshot that the reader makes of the store.

use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_core::progress::ProgressRecord;
use trainyard_core::{RunId, StageKey};
use trainyard_engine::fold::StageView;
use trainyard_views::curve_tail::Curves;
use trainyard_views::graph::GraphView;

/// Run in the list.
#[derive(Debug, Clone, PartialEq)]
pub struct RunLine {
    pub run: RunId,
    pub workflow: String,
    /// Displayed status; `reading` before its journal was read.
    pub status: &'static str,
    /// Milliseconds from creation to the end, or to now; `None` if unknown.
    pub elapsed: Option<i64>,
    /// Stages that are over.
    pub done: usize,
    /// All stages, without fan-outs that stand for their instances.
    pub total: usize,
    /// Progress of the first running stage.
    pub progress: Option<ProgressRecord>,
    /// Reason why the journal cannot be read.
    pub why: Option<String>,
}

impl RunLine {
    /// Returns whether a process writes the run now.
    pub fn is_live(&self) -> bool {
        self.status == "running"
    }
}

/// An open run.
#[derive(Debug, Clone, PartialEq)]
pub struct RunModel {
    pub line: RunLine,
    /// Whether the run was removed from the store after it was opened.
    pub is_removed: bool,
    pub graph: Arc<GraphView>,
    /// Stages, in the order to which the graph refers.
    pub stages: Arc<Vec<StageLine>>,
    /// Last progress of running stages.
    pub progress: BTreeMap<StageKey, ProgressRecord>,
    /// The selected stage; `None` before it was read.
    pub detail: Option<StageDetail>,
}

/// Stage in the list of an open run.
#[derive(Debug, Clone, PartialEq)]
pub struct StageLine {
    pub key: StageKey,
    /// Displayed status.
    pub status: &'static str,
    /// Milliseconds without those of waiting, once the stage is over.
    pub took: Option<i64>,
    /// Main metric with its value, once published.
    pub metric: Option<String>,
}

/// The selected stage.
#[derive(Debug, Clone, PartialEq)]
pub struct StageDetail {
    pub stage: StageView,
    /// Displayed status.
    pub status: &'static str,
    /// Open stages that it needs, with their statuses.
    pub needs: Vec<String>,
    /// Lines of `trainyard explain`.
    pub explanation: Vec<String>,
    /// Last lines of the last attempt's log.
    pub log: Arc<Vec<String>>,
    /// Learning curves.
    pub curves: Arc<Curves>,
}

/// Data that the reader reads next.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadRequest {
    /// Run to read; the list of runs if `None`.
    pub run: Option<RunId>,
    /// Selected stage of that run.
    pub stage: Option<StageKey>,
}
