//! What an engine needs besides the plan, and what earlier writers of the run left.

use crate::MachinePool;
use crate::fold::{RunView, StageView};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::event::{AttemptOutcome, Selection};
use trainyard_core::{AttemptNumber, Digest, RunId, StageKey, StageKinds};

/// What an engine needs besides the plan.
#[derive(Clone)]
pub struct Setup {
    /// The run.
    pub run: RunId,
    /// Which part of the plan runs.
    pub selection: Selection,
    /// Stop the run at the first failed stage.
    pub fail_fast: bool,
    /// The machines that there are.
    pub pools: Vec<MachinePool>,
    /// All stage kinds.
    pub catalogue: Arc<dyn StageKinds>,
    /// Secret name → where its value comes from.
    pub secrets: BTreeMap<String, String>,
    /// Attempts flush every put to the disk, as the engine's own store does.
    pub fsync: bool,
    /// How long attempts wait for a store that is away.
    pub store_outage: Duration,
    /// How long attempts outlive the last sign of a writer of the run.
    pub orphan_timeout: Duration,
    /// What earlier writers of the run left.
    pub resumed: Resumed,
}

/// What earlier writers of the same run left; attempt numbers only grow.
#[derive(Debug, Clone, Default)]
pub struct Resumed {
    /// The last attempt of each stage that had one.
    pub attempts: BTreeMap<StageKey, LastAttempt>,
}

/// The last attempt of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastAttempt {
    /// Its number.
    pub number: AttemptNumber,
    /// Set if its end was never journaled, or it succeeded and was never published.
    pub open: Option<OpenAttempt>,
}

/// An attempt of an earlier writer that may still run, or have left its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAttempt {
    /// Digest of the stage when it was launched.
    pub digest: Digest,
    /// Name of its pool.
    pub pool: String,
    /// Its executor's name of it, if that was journaled.
    pub handle: Option<String>,
}

impl Resumed {
    /// Number of the last attempt of a stage, 0 without one, and that attempt if it was left open.
    pub(crate) fn last(&self, stage: &StageKey) -> (AttemptNumber, Option<OpenAttempt>) {
        self.attempts.get(stage).map_or((0, None), |last| (last.number, last.open.clone()))
    }
    /// Reads it from the fold of the journal.
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
