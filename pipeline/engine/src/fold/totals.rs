//! Summarizes a run for lists of runs.

use super::stage::StageStatus;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trainyard_core::event::RunOutcome;

/// Summary of a run. A long run stores it when it ends, so that a list need not read its journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Name of the workflow.
    pub workflow: String,
    /// Time of creation, in Unix milliseconds.
    pub created: i64,
    /// Time of the end, or of the last record, in Unix milliseconds.
    pub until: i64,
    /// Outcome; `None` before the end.
    pub outcome: Option<RunOutcome>,
    /// Number of stages in each status.
    pub stages: BTreeMap<StageStatus, usize>,
}

impl Totals {
    /// Returns the number of all stages.
    pub fn all(&self) -> usize {
        self.stages.values().sum()
    }
    /// Returns the number of stages in a status.
    pub fn of(&self, status: StageStatus) -> usize {
        self.stages.get(&status).copied().unwrap_or(0)
    }
}
