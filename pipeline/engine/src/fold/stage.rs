//! Holds one stage of a run's fold: status, attempts, and published outputs.

use super::attempt::AttemptView;
use super::time::optional_time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trainyard_core::event::{AttemptOutcome, CheckResult, Event, GrantSummary, OutputSummary};
use trainyard_core::{AttemptNumber, Comparison, Digest, Error, StageKey};

/// Shown status of a stage whose attempt ended with the writer of the run.
const INTERRUPTED: &str = "interrupted";

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StageStatus {
    /// Waits for other stages, or for the store's response.
    #[default]
    Pending,
    /// A fan-out whose instances follow it in the list.
    Expanded,
    /// Ready, but no pool can take it yet.
    Queued,
    /// An attempt runs.
    Running,
    /// The attempt has a grant, but no machine yet.
    Waiting,
    /// Waits before its next attempt.
    Retrying,
    /// An attempt succeeded and is not published yet.
    Publishing,
    /// Published by this run.
    Done,
    /// Published before.
    Hit,
    /// Did not run: its condition is false, or an input was skipped.
    Skipped,
    /// Failed for good in this run.
    Failed,
    /// A stage that it needs did not succeed.
    Blocked,
    /// Stopped, or never started, because the run stops.
    Cancelled,
}

impl StageStatus {
    /// Returns whether the stage is over in this run.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Hit | Self::Skipped | Self::Failed | Self::Blocked | Self::Cancelled)
    }
    /// Returns the lower-case name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Expanded => "expanded",
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Retrying => "retrying",
            Self::Publishing => "publishing",
            Self::Done => "done",
            Self::Hit => "hit",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::Blocked => "blocked",
            Self::Cancelled => "cancelled",
        }
    }
}

/// One stage of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StageView {
    pub stage: ViewKey,
    pub kind: String,
    /// Metric shown as progress.
    pub main_metric: Option<String>,
    /// Stages that must end first.
    pub after: Vec<StageKey>,
    pub status: StageStatus,
    /// Digest, once known.
    pub digest: Option<Digest>,
    /// Generation of the manifest, once published or hit.
    pub generation: Option<u32>,
    /// Whether another writer published first.
    pub adopted: bool,
    /// Attempts in order, including those of earlier writers.
    pub attempts: Vec<AttemptView>,
    /// Metrics of the manifest.
    pub metrics: BTreeMap<String, f64>,
    /// Comparisons of the manifest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
    /// Published outputs, by port.
    pub outputs: BTreeMap<String, OutputSummary>,
    pub checks: Vec<CheckResult>,
    /// Error of a failed stage.
    pub error: Option<Error>,
    /// Reason why the stage runs, waits, was skipped or is blocked.
    pub why: Option<String>,
    /// Start of the first attempt, in Unix milliseconds.
    #[serde(serialize_with = "optional_time")]
    pub started: Option<i64>,
    /// Time at which the status became final, in Unix milliseconds.
    #[serde(serialize_with = "optional_time")]
    pub ended: Option<i64>,
    /// Milliseconds after `started` of waiting for the machine.
    pub waited: i64,
    /// Start of the current wait, in Unix milliseconds.
    #[serde(serialize_with = "optional_time")]
    pub waiting_since: Option<i64>,
}

/// Stage key with an empty default, so that views can be built field by field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct ViewKey(pub StageKey);

impl Default for ViewKey {
    fn default() -> Self {
        Self(StageKey(String::new()))
    }
}

impl StageView {
    /// Returns the name of the status as users see it. `is_live`: the run has ended, or its writer is alive. Otherwise
    /// no attempt runs, except one with a handle, which outlives its engine: the stage is `interrupted`.
    pub fn shown_status(&self, is_live: bool) -> &'static str {
        let continues = self.attempts.last().is_some_and(|a| a.handle.is_some() && a.outcome.is_none());
        match self.status {
            StageStatus::Queued if !is_live => StageStatus::Pending.name(),
            StageStatus::Running | StageStatus::Waiting | StageStatus::Retrying | StageStatus::Publishing
                if !is_live && !continues =>
            {
                INTERRUPTED
            }
            status => status.name(),
        }
    }
    /// Returns the stage instance.
    pub fn key(&self) -> &StageKey {
        &self.stage.0
    }
    /// Returns the seconds from the start of the first attempt to the end of the stage, without those of waiting for
    /// the machine; 0 if the clock was set back between them.
    pub fn seconds(&self) -> Option<f64> {
        Some((self.ended? - self.started? - self.waited).max(0) as f64 / 1_000.0)
    }
}

impl StageView {
    /// Adds one more event about this stage.
    pub(super) fn apply(&mut self, at: i64, event: &Event) {
        match event {
            Event::StageDigested { digest, why, .. } => {
                self.digest = Some(digest.clone());
                self.why = Some(why.clone());
            }
            Event::CacheHit { digest, generation, metrics, comparisons, outputs, .. } => {
                self.published(digest, *generation, outputs);
                self.reported(metrics, comparisons);
                self.end(at, StageStatus::Hit);
            }
            Event::Queued { why, .. } => {
                self.status = StageStatus::Queued;
                self.why = Some(why.clone());
            }
            Event::AttemptStarted { attempt, digest, pool, grant, .. } => {
                self.attempt_started(at, *attempt, digest, pool, grant)
            }
            Event::AttemptSubmitted { attempt, handle, .. } => self.attempt_submitted(*attempt, handle),
            Event::AttemptWaiting { attempt, why, .. } => {
                self.status = StageStatus::Waiting;
                self.why = Some(why.clone());
                self.waiting_since.get_or_insert(at);
                self.change_attempt(*attempt, |attempt| attempt.wait(at, why));
            }
            Event::AttemptWorking { attempt, .. } => {
                self.status = StageStatus::Running;
                self.why = None;
                self.stop_waiting(at);
                self.change_attempt(*attempt, |attempt| attempt.stop_waiting(at));
            }
            Event::AttemptEnded { attempt, outcome, error, .. } => {
                self.stop_waiting(at);
                self.attempt_ended(at, *attempt, *outcome, error.as_ref())
            }
            Event::RetryScheduled { attempt, .. } => {
                self.status = StageStatus::Retrying;
                self.why = Some(format!("waits before attempt {attempt}"));
            }
            Event::Published { digest, generation, adopted, metrics, comparisons, outputs, .. } => {
                self.published(digest, *generation, outputs);
                self.reported(metrics, comparisons);
                self.adopted = *adopted;
                self.end(at, StageStatus::Done);
            }
            Event::ChecksEvaluated { results, .. } => self.checks.clone_from(results),
            Event::Served { .. } => self.end(at, StageStatus::Done),
            Event::Skipped { why, .. } => {
                self.why = Some(why.clone());
                self.end(at, StageStatus::Skipped);
            }
            Event::Blocked { by, .. } => {
                self.why = Some(format!("blocked by {by}"));
                self.end(at, StageStatus::Blocked);
            }
            Event::StageFailed { error, .. } => {
                self.error = Some(error.clone());
                self.end(at, StageStatus::Failed);
            }
            Event::StageCancelled { .. } => self.end(at, StageStatus::Cancelled),
            _ => {}
        }
    }

    fn stop_waiting(&mut self, at: i64) {
        if let Some(since) = self.waiting_since.take() {
            self.waited += (at - since).max(0);
        }
    }

    fn end(&mut self, at: i64, status: StageStatus) {
        self.stop_waiting(at);
        self.status = status;
        self.ended = Some(at);
        if matches!(status, StageStatus::Done | StageStatus::Hit) {
            self.error = None;
            self.why = None;
        }
    }

    fn published(&mut self, digest: &Digest, generation: u32, outputs: &BTreeMap<String, OutputSummary>) {
        self.digest = Some(digest.clone());
        self.generation = Some(generation);
        self.outputs.clone_from(outputs);
    }
    fn reported(&mut self, metrics: &BTreeMap<String, f64>, comparisons: &[Comparison]) {
        self.metrics.clone_from(metrics);
        self.comparisons = comparisons.to_vec();
    }

    fn attempt_started(&mut self, at: i64, number: AttemptNumber, digest: &Digest, pool: &str, grant: &GrantSummary) {
        self.status = StageStatus::Running;
        self.started.get_or_insert(at);
        self.why = None;
        let (digest, pool, grant) = (digest.clone(), pool.to_string(), grant.clone());
        self.attempts.push(AttemptView {
            number,
            digest,
            pool,
            handle: None,
            grant,
            started: at,
            ended: None,
            waits: Vec::new(),
            outcome: None,
            error: None,
        });
    }

    /// Records the handle of an attempt, and restores an attempt that a new writer had considered lost.
    fn attempt_submitted(&mut self, number: AttemptNumber, handle: &str) {
        if self.status == StageStatus::Pending {
            self.status = StageStatus::Running;
            self.why = None;
        }
        self.change_attempt(number, |attempt| {
            attempt.handle = Some(handle.to_string());
            attempt.outcome = None;
            attempt.ended = None;
            attempt.error = None;
        });
    }

    fn attempt_ended(&mut self, at: i64, number: AttemptNumber, outcome: AttemptOutcome, error: Option<&Error>) {
        if outcome == AttemptOutcome::Succeeded {
            self.status = StageStatus::Publishing;
        }
        self.change_attempt(number, |attempt| {
            attempt.stop_waiting(at);
            attempt.outcome = Some(outcome);
            attempt.ended = Some(at);
            attempt.error = error.cloned();
        });
    }

    /// Changes the last attempt of a number.
    fn change_attempt(&mut self, number: AttemptNumber, change: impl FnOnce(&mut AttemptView)) {
        if let Some(attempt) = self.attempts.iter_mut().rev().find(|attempt| attempt.number == number) {
            change(attempt);
        }
    }
}
