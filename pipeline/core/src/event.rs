//! Defines the events of a run's journal. Resume, `runs show` and `explain` read nothing else.
//!
//! A batch of the journal contains records, one JSON object each: `{"at": <unix ms>, "type": "attempt_started", …}`.
//! Later versions only add events, and add fields only with a default. A reader skips events that it does not know
//! ([`Event::Unknown`]). Records stay small; logs, rows and curves are separate objects.

mod parts;

pub use parts::{
    AttemptOutcome, CheckResult, GrantSummary, OutputSummary, PlannedStage, RunOutcome, Selection, summarize_outputs,
};

use crate::artifact::GenerationReason;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::ids::{AttemptNumber, Epoch, StageKey};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Version of the set of events, stored in `run_created`.
pub const EVENT_FORMAT: u32 = 1;

/// Event and the time at which its writer decided it. Serializes as the journal's form: the event's JSON object with an
/// additional field `at`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EventRecord {
    /// Milliseconds since 1970-01-01 UTC, by the writer's clock.
    pub at: i64,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

/// Event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The run begins.
    RunCreated {
        /// [`EVENT_FORMAT`] of the writing program.
        format: u32,
        /// Name of the workflow.
        workflow: String,
        /// Path of the workflow file.
        source: String,
        /// Digest of the plan.
        plan_digest: Digest,
        /// Parameters after defaults.
        params: BTreeMap<String, Value>,
        /// Part of the plan that runs.
        #[serde(default)]
        selection: Selection,
        /// Every stage instance known so far, in topological order.
        stages: Vec<PlannedStage>,
    },
    /// A writer owns the journal from here on. The first event of every epoch.
    WriterOpened {
        /// Number of the writer.
        epoch: Epoch,
        /// Unique name, usually `<host>:<pid>:<start>` of the process.
        #[serde(default)]
        writer: String,
    },
    /// A late `for_each` was expanded into these instances.
    StageExpanded {
        /// The fan-out.
        stage: StageKey,
        /// Instances, in row order.
        instances: Vec<StageKey>,
    },
    /// The stage's digest is known, and it must run.
    StageDigested {
        /// The stage instance.
        stage: StageKey,
        /// Digest of the stage.
        digest: Digest,
        /// Reason why the stage is not a cache hit.
        why: String,
    },
    /// The stage was published before, by another run or by a stage of equal digest in this one.
    CacheHit {
        /// The stage instance.
        stage: StageKey,
        /// Digest of the stage.
        digest: Digest,
        /// Generation of the manifest found.
        generation: u32,
        /// Metrics of that manifest.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        metrics: BTreeMap<String, f64>,
        /// Comparisons of that manifest.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        comparisons: Vec<crate::metric::Comparison>,
        /// Outputs of that manifest.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        outputs: BTreeMap<String, OutputSummary>,
    },
    /// The stage is ready, but no pool can take it now.
    Queued {
        /// The stage instance.
        stage: StageKey,
        /// Missing resources, pool by pool.
        why: String,
    },
    /// An attempt was given resources and is launched.
    AttemptStarted {
        /// The stage instance.
        stage: StageKey,
        /// The attempt's number.
        attempt: AttemptNumber,
        /// The stage's digest.
        digest: Digest,
        /// Name of the pool; `in_process` for kinds that run inside the engine's process.
        pool: String,
        /// The resources.
        grant: GrantSummary,
    },
    /// The attempt's executor has accepted it. The attempt outlives this engine, and the next one finds it by this
    /// handle. For an attempt of an earlier engine, the event records that the attempt was found and continues.
    AttemptSubmitted {
        /// The stage instance.
        stage: StageKey,
        /// The attempt's number.
        attempt: AttemptNumber,
        /// The executor's name of the attempt, such as a job id.
        handle: String,
    },
    /// The attempt has its grant, but no machine yet. Work begins with [`Event::AttemptWorking`].
    AttemptWaiting {
        /// The stage instance.
        stage: StageKey,
        /// The attempt's number.
        attempt: AttemptNumber,
        /// Holder of the machine, or why there is no machine, in the executor's wording.
        why: String,
    },
    /// An attempt that had to wait begins its work.
    AttemptWorking {
        /// The stage instance.
        stage: StageKey,
        /// The attempt's number.
        attempt: AttemptNumber,
    },
    /// An attempt ended.
    AttemptEnded {
        /// The stage instance.
        stage: StageKey,
        /// The attempt's number.
        attempt: AttemptNumber,
        /// Outcome of the attempt.
        outcome: AttemptOutcome,
        /// Cause of a failure or, after a success, why its result is not published yet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Error>,
    },
    /// The stage will be tried again.
    RetryScheduled {
        /// The stage instance.
        stage: StageKey,
        /// Number of the next attempt.
        attempt: AttemptNumber,
        /// Earliest start, in milliseconds since 1970-01-01 UTC.
        not_before: i64,
    },
    /// The stage's manifest is in the store.
    Published {
        /// The stage instance.
        stage: StageKey,
        /// Attempt whose result is published.
        attempt: AttemptNumber,
        /// The stage's digest.
        digest: Digest,
        /// Generation of the manifest.
        generation: u32,
        /// Reason for a generation above 0.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<GenerationReason>,
        /// Whether another writer published first, so that its outputs were taken.
        #[serde(default)]
        adopted: bool,
        /// Metrics of the manifest.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        metrics: BTreeMap<String, f64>,
        /// Comparisons of the manifest.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        comparisons: Vec<crate::metric::Comparison>,
        /// Outputs of the manifest.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        outputs: BTreeMap<String, OutputSummary>,
    },
    /// The stage's checks were compared with its metrics.
    ChecksEvaluated {
        /// The stage instance.
        stage: StageKey,
        /// One result for each check, in file order.
        results: Vec<CheckResult>,
    },
    /// The stage ran as a companion of another one, which has ended well. Companions publish nothing.
    Served {
        /// The stage instance.
        stage: StageKey,
        /// Lead of the companion.
        beside: StageKey,
    },
    /// The stage does not run: its condition is false, or an input was skipped.
    Skipped {
        /// The stage instance.
        stage: StageKey,
        /// Reason.
        why: String,
    },
    /// The stage never starts, because a stage that it needs did not succeed.
    Blocked {
        /// The stage instance.
        stage: StageKey,
        /// The needed stage.
        by: StageKey,
    },
    /// The stage failed and is not tried again in this run.
    StageFailed {
        /// The stage instance.
        stage: StageKey,
        /// Cause of the failure.
        error: Error,
    },
    /// The stage was stopped, or never started, because the run stops.
    StageCancelled {
        /// The stage instance.
        stage: StageKey,
    },
    /// A request to stop the run.
    CancelRequested {
        /// Origin of the request.
        why: String,
    },
    /// An idle writer is alive.
    Heartbeat {},
    /// The run is over.
    RunFinished {
        /// Outcome of the run.
        outcome: RunOutcome,
    },
    /// An event of a later version.
    #[serde(other)]
    Unknown,
}

impl Event {
    /// Returns the stage that the event is about; `None` for events about the whole run.
    pub fn stage(&self) -> Option<&StageKey> {
        match self {
            Self::StageExpanded { stage, .. }
            | Self::StageDigested { stage, .. }
            | Self::CacheHit { stage, .. }
            | Self::Queued { stage, .. }
            | Self::AttemptStarted { stage, .. }
            | Self::AttemptSubmitted { stage, .. }
            | Self::AttemptWaiting { stage, .. }
            | Self::AttemptWorking { stage, .. }
            | Self::AttemptEnded { stage, .. }
            | Self::RetryScheduled { stage, .. }
            | Self::Published { stage, .. }
            | Self::ChecksEvaluated { stage, .. }
            | Self::Served { stage, .. }
            | Self::Skipped { stage, .. }
            | Self::Blocked { stage, .. }
            | Self::StageFailed { stage, .. }
            | Self::StageCancelled { stage } => Some(stage),
            Self::RunCreated { .. }
            | Self::WriterOpened { .. }
            | Self::CancelRequested { .. }
            | Self::Heartbeat {}
            | Self::RunFinished { .. }
            | Self::Unknown => None,
        }
    }
}

impl EventRecord {
    /// Returns the journal's form as a value.
    pub fn to_value(&self) -> Result<Value> {
        serde_json::to_value(self).map_err(|e| Error::bug(format!("an event has no JSON form: {e}")))
    }
    /// Parses the journal's form. A missing `at` reads as 0, an event of a later version as [`Event::Unknown`].
    ///
    /// Errors: data, if a known event lacks a field or has one of another type.
    pub fn from_value(value: &Value) -> Result<Self> {
        let at = value.get("at").and_then(Value::as_i64).unwrap_or(0);
        let event = Event::deserialize(value).map_err(|e| {
            let name = value.get("type").and_then(Value::as_str).unwrap_or("?");
            Error::data(format!("journal event `{name}` cannot be read: {e}"))
                .help("read this run with the version that wrote it")
        })?;
        Ok(Self { at, event })
    }
}

#[cfg(test)]
mod tests;
