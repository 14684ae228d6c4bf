//! A run in short: what a list of runs shows of it.

use super::stage::StageStatus;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trainyard_core::event::RunOutcome;

/// A run in short. A long run leaves it in the store when it ends, so that a list need not read its journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// Name of the workflow.
    pub workflow: String,
    /// When it was created, in Unix milliseconds.
    pub created: i64,
    /// When it ended, or its last record, in Unix milliseconds.
    pub until: i64,
    /// How it ended; none if it has not.
    pub outcome: Option<RunOutcome>,
    /// Number of stages in each status.
    pub stages: BTreeMap<StageStatus, usize>,
}

impl Totals {
    /// Number of all stages.
    pub fn all(&self) -> usize {
        self.stages.values().sum()
    }
    /// Number of stages in a status.
    pub fn of(&self, status: StageStatus) -> usize {
        self.stages.get(&status).copied().unwrap_or(0)
    }
}
