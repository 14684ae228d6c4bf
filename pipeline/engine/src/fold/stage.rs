//! One stage of a run's fold: where it is, its attempts, what it published.

use super::time::{optional_time, time};
use serde::Serialize;
use std::collections::BTreeMap;
use trainyard_core::event::{AttemptOutcome, CheckResult, Event, GrantSummary, OutputSummary};
use trainyard_core::{AttemptNumber, Digest, Error, StageKey};

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
    /// Its attempt has a grant, but other runs hold the machine.
    Waiting,
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
    pub outputs: BTreeMap<String, OutputSummary>,
    pub checks: Vec<CheckResult>,
    pub error: Option<Error>,
    /// Why it runs, waits, was skipped or is blocked.
    pub why: Option<String>,
    /// Start of the first attempt; unix milliseconds.
    #[serde(serialize_with = "optional_time")]
    pub started: Option<i64>,
    /// When its status became final; unix milliseconds.
    #[serde(serialize_with = "optional_time")]
    pub ended: Option<i64>,
    /// Milliseconds after `started` in which it waited for the machine.
    pub waited: i64,
    /// Since when it waits, if it does; unix milliseconds.
    #[serde(serialize_with = "optional_time")]
    pub waiting_since: Option<i64>,
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
    #[serde(serialize_with = "time")]
    pub started: i64,
    #[serde(serialize_with = "optional_time")]
    pub ended: Option<i64>,
    pub outcome: Option<AttemptOutcome>,
    pub error: Option<Error>,
}

impl StageView {
    pub fn key(&self) -> &StageKey {
        &self.stage.0
    }
    /// Seconds from the start of the first attempt to the end of the stage, without those in which it waited for the
    /// machine; 0 if the clock was set back between them.
    pub fn seconds(&self) -> Option<f64> {
        Some((self.ended? - self.started? - self.waited).max(0) as f64 / 1_000.0)
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
            Event::CacheHit { digest, generation, metrics, outputs, .. } => {
                self.published(digest, *generation, metrics, outputs);
                self.end(at, StageStatus::Hit);
            }
            Event::Queued { why, .. } => {
                self.status = StageStatus::Queued;
                self.why = Some(why.clone());
            }
            Event::AttemptStarted { attempt, digest, pool, grant, .. } => {
                self.attempt_started(at, *attempt, digest, pool, grant)
            }
            Event::AttemptWaiting { why, .. } => {
                self.status = StageStatus::Waiting;
                self.why = Some(why.clone());
                self.waiting_since.get_or_insert(at);
            }
            Event::AttemptWorking { .. } => {
                self.status = StageStatus::Running;
                self.why = None;
                self.stop_waiting(at);
            }
            Event::AttemptEnded { attempt, outcome, error, .. } => {
                self.stop_waiting(at);
                self.attempt_ended(at, *attempt, *outcome, error.as_ref())
            }
            Event::RetryScheduled { attempt, .. } => {
                self.status = StageStatus::Retrying;
                self.why = Some(format!("waits before attempt {attempt}"));
            }
            Event::Published { digest, generation, adopted, metrics, outputs, .. } => {
                self.published(digest, *generation, metrics, outputs);
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

    fn published(
        &mut self,
        digest: &Digest,
        generation: u32,
        metrics: &BTreeMap<String, f64>,
        outputs: &BTreeMap<String, OutputSummary>,
    ) {
        self.digest = Some(digest.clone());
        self.generation = Some(generation);
        self.metrics.clone_from(metrics);
        self.outputs.clone_from(outputs);
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
