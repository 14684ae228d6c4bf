//! One stage of a run's fold: where it is, its attempts, what it published.

use serde::Serialize;
use std::collections::BTreeMap;
use trainyard_core::event::{AttemptOutcome, CheckResult, Event, GrantSummary, OutputSummary};
use trainyard_core::{AttemptNumber, Comparison, Digest, Error, StageKey};

/// Where a stage is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StageStatus {
    /// Waits for other stages, or for the store's answer.
    #[default]
    Pending,
    /// A fan-out whose instances are listed behind it.
    Expanded,
    /// Ready; no pool can take it yet.
    Queued,
    Running,
    /// Waits before its next attempt.
    Retrying,
    /// Its attempt is done; not yet published.
    Publishing,
    /// Published by this run.
    Done,
    /// Published before.
    Hit,
    Skipped,
    Failed,
    /// Something it needs did not succeed.
    Blocked,
    Cancelled,
}

impl StageStatus {
    /// Nothing will happen to the stage any more in this run.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Done | Self::Hit | Self::Skipped | Self::Failed | Self::Blocked | Self::Cancelled)
    }
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Expanded => "expanded",
            Self::Queued => "queued",
            Self::Running => "running",
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
    pub stage: Key,
    pub kind: String,
    pub main_metric: Option<String>,
    pub after: Vec<StageKey>,
    pub status: StageStatus,
    pub digest: Option<Digest>,
    pub generation: Option<u32>,
    /// True: another writer published first.
    pub adopted: bool,
    pub attempts: Vec<AttemptView>,
    pub metrics: BTreeMap<String, f64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
    pub outputs: BTreeMap<String, OutputSummary>,
    pub checks: Vec<CheckResult>,
    pub error: Option<Error>,
    /// Why it runs, waits, was skipped or is blocked.
    pub why: Option<String>,
    /// Start of the first attempt; unix milliseconds.
    pub started: Option<i64>,
    /// When its status became final; unix milliseconds.
    pub ended: Option<i64>,
}

/// A stage key with a default, so that views can be built piece by piece.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Key(pub StageKey);

impl Default for Key {
    fn default() -> Self {
        Self(StageKey(String::new()))
    }
}

/// One attempt of a stage.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttemptView {
    pub number: AttemptNumber,
    pub digest: Digest,
    pub pool: String,
    pub grant: GrantSummary,
    /// Unix milliseconds.
    pub started: i64,
    pub ended: Option<i64>,
    pub outcome: Option<AttemptOutcome>,
    pub error: Option<Error>,
}

impl StageView {
    pub fn key(&self) -> &StageKey {
        &self.stage.0
    }
    /// Seconds from the start of the first attempt to the end of the stage; 0 if the clock was set back between them.
    pub fn seconds(&self) -> Option<f64> {
        Some((self.ended? - self.started?).max(0) as f64 / 1_000.0)
    }
}

impl StageView {
    /// Takes one more event about this stage.
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
            Event::AttemptEnded { attempt, outcome, error, .. } => {
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

    fn end(&mut self, at: i64, status: StageStatus) {
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
            grant,
            started: at,
            ended: None,
            outcome: None,
            error: None,
        });
    }

    fn attempt_ended(&mut self, at: i64, number: AttemptNumber, outcome: AttemptOutcome, error: Option<&Error>) {
        if outcome == AttemptOutcome::Succeeded {
            self.status = StageStatus::Publishing;
        }
        if let Some(attempt) = self.attempts.iter_mut().rev().find(|a| a.number == number) {
            attempt.outcome = Some(outcome);
            attempt.ended = Some(at);
            attempt.error = error.cloned();
        }
    }
}
