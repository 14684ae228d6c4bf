//! Holds the dependencies of an engine other than the plan, and the attempts of earlier writers of the run.

use crate::MachinePool;
use crate::fold::{RunView, StageView};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::event::{AttemptOutcome, Selection};
use trainyard_core::{AttemptNumber, Digest, RunId, StageKey, StageKinds};

/// Dependencies of an engine other than the plan.
#[derive(Clone)]
pub struct EngineSetup {
    pub run: RunId,
    /// Part of the plan that runs.
    pub selection: Selection,
    /// Whether to stop the run at the first failed stage.
    pub fail_fast: bool,
    /// Available machines.
    pub pools: Vec<MachinePool>,
    /// All stage kinds.
    pub catalogue: Arc<dyn StageKinds>,
    /// Secret name → source of its value.
    pub secrets: BTreeMap<String, String>,
    /// Whether attempts flush every put to the disk, as the engine's store does.
    pub fsync: bool,
    /// Time for which attempts wait for an unavailable store.
    pub store_outage: Duration,
    /// Time for which attempts outlive the last heartbeat of a writer of the run.
    pub orphan_timeout: Duration,
    /// State left by earlier writers of the run.
    pub resumed: ResumeState,
}

/// State left by earlier writers of the same run; attempt numbers only grow.
#[derive(Debug, Clone, Default)]
pub struct ResumeState {
    /// Last attempt of each stage that had one.
    pub attempts: BTreeMap<StageKey, LastAttempt>,
}

/// The last attempt of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastAttempt {
    pub number: AttemptNumber,
    /// Set if the attempt's end was never journaled, or it succeeded and was never published.
    pub open: Option<OpenAttempt>,
}

/// Attempt of an earlier writer that may still run, or have left its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAttempt {
    /// Digest of the stage at launch.
    pub digest: Digest,
    /// Name of its pool.
    pub pool: String,
    /// The executor's name of the attempt, if it was journaled.
    pub handle: Option<String>,
}

impl ResumeState {
    /// Returns the number of a stage's last attempt, 0 without one, and that attempt if it was left open.
    pub(crate) fn last(&self, stage: &StageKey) -> (AttemptNumber, Option<OpenAttempt>) {
        self.attempts.get(stage).map_or((0, None), |last| (last.number, last.open.clone()))
    }
    /// Reads the state from the fold of the journal.
    pub fn from_view(view: &RunView) -> Self {
        let last = |stage: &StageView| {
            let attempt = stage.attempts.last()?;
            let ended_here = matches!(
                attempt.outcome,
                Some(AttemptOutcome::Failed | AttemptOutcome::TimedOut | AttemptOutcome::Cancelled)
            );
            let open = (!ended_here && stage.generation.is_none()).then(|| OpenAttempt {
                digest: attempt.digest.clone(),
                pool: attempt.pool.clone(),
                handle: attempt.handle.clone(),
            });
            Some((stage.key().clone(), LastAttempt { number: attempt.number, open }))
        };
        Self { attempts: view.stages.iter().filter_map(last).collect() }
    }
}
