//! Folds a journal into the present state of its run: the status of every stage, with times, attempts, errors and
//! metrics. `runs show`, resume and `explain` read nothing else.
//!
//! The fold accepts any prefix of a journal, several writers, and events of later versions.

mod attempt;
mod stage;
#[cfg(test)]
mod tests;
mod time;
mod totals;

pub use attempt::{AttemptView, AttemptWait};
pub use stage::{StageStatus, StageView, ViewKey};
pub use totals::Totals;

use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use trainyard_core::event::{AttemptOutcome, Event, EventRecord, RunOutcome, Selection};
use trainyard_core::{Digest, Epoch, Error, Result, StageKey};

/// The present state of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct RunView {
    /// Name of the workflow.
    pub workflow: String,
    /// Path of the workflow file.
    pub source: String,
    /// Digest of the plan; `None` only if the journal has no `run_created` yet.
    pub plan_digest: Option<Digest>,
    /// Parameters after defaults.
    pub params: BTreeMap<String, Value>,
    /// Part of the plan that runs.
    pub selection: Selection,
    /// Time of creation, in Unix milliseconds.
    #[serde(serialize_with = "time::time")]
    pub created: i64,
    /// Present writer of the journal.
    pub writer: WriterView,
    /// Stages in plan order; the instances of a late fan-out follow their stage.
    pub stages: Vec<StageView>,
    /// Reason of the cancellation request, if any.
    pub cancel_requested: Option<String>,
    /// Time of the end, in Unix milliseconds, and outcome.
    #[serde(serialize_with = "time::ending")]
    pub finished: Option<(i64, RunOutcome)>,
    #[serde(skip)]
    index: HashMap<StageKey, usize>,
}

/// Writer of the journal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WriterView {
    /// Number of the writer; 0 = no writer yet.
    pub epoch: Epoch,
    /// Unique name, usually `<host>:<pid>:<start>:<nonce>`.
    pub name: String,
    /// Time of the last record, heartbeats included, in Unix milliseconds.
    #[serde(serialize_with = "time::time")]
    pub last_seen: i64,
}

impl RunView {
    /// Folds a journal in its stored form.
    ///
    /// Errors: data, if a known event cannot be read.
    pub fn from_values<'a>(values: impl IntoIterator<Item = &'a Value>) -> Result<Self> {
        let mut view = Self::default();
        view.apply_values(values)?;
        Ok(view)
    }

    /// Adds more of a journal in its stored form. Errors: data, if a known event cannot be read.
    pub fn apply_values<'a>(&mut self, values: impl IntoIterator<Item = &'a Value>) -> Result<()> {
        for value in values {
            self.apply(&EventRecord::from_value(value)?);
        }
        Ok(())
    }

    /// Returns the stage with this key.
    pub fn stage(&self, key: &StageKey) -> Option<&StageView> {
        self.index.get(key).map(|at| &self.stages[*at])
    }

    /// Returns the number of stages in each status.
    pub fn counts(&self) -> BTreeMap<StageStatus, usize> {
        let mut counts = BTreeMap::new();
        for stage in &self.stages {
            *counts.entry(stage.status).or_default() += 1;
        }
        counts
    }

    /// Returns a summary of the run.
    pub fn totals(&self) -> Totals {
        Totals {
            workflow: self.workflow.clone(),
            created: self.created,
            until: self.finished.map_or(self.writer.last_seen, |(at, _)| at),
            outcome: self.finished.map(|(_, outcome)| outcome),
            stages: self.counts(),
        }
    }

    /// Returns the reason for a stage's state, in readable lines; empty if the stage is unknown.
    pub fn explain(&self, key: &StageKey) -> Vec<String> {
        let Some(stage) = self.stage(key) else { return Vec::new() };
        let mut lines = vec![format!("{key} is {}", stage.status.name())];
        if stage.status == StageStatus::Pending {
            let open = stage.after.iter().filter_map(|k| self.stage(k)).filter(|s| !s.status.is_final());
            lines.extend(open.map(|s| format!("waits for {} ({})", s.key(), s.status.name())));
        }
        lines.extend(stage.why.clone());
        lines.extend(stage.checks.iter().filter(|c| !c.passed).map(crate::checks::describe));
        for attempt in &stage.attempts {
            let outcome =
                attempt.outcome.map_or_else(|| "runs".to_string(), |outcome| format!("{outcome:?}").to_lowercase());
            let why = attempt.error.as_ref().map(|error| format!(": {error} ({})", error.kind)).unwrap_or_default();
            let handle = attempt.handle.as_ref().map(|handle| format!(" as {handle}")).unwrap_or_default();
            lines.push(format!("attempt {} on {}{handle}: {outcome}{why}", attempt.number, attempt.pool));
            lines.extend(causes(attempt.error.as_ref()));
        }
        // The error of the last attempt is mostly that of the stage, and that of failed checks is printed above.
        let is_new = |e: &&Error| {
            let last = stage.attempts.last().and_then(|attempt| attempt.error.as_ref());
            last.is_none_or(|attempt_error| attempt_error.message != e.message)
                && stage.checks.iter().all(|c| c.passed || !c.gates)
        };
        let new_error = stage.error.as_ref().filter(is_new);
        lines.extend(new_error.map(|e| format!("{} ({})", e, e.kind)));
        lines.extend(causes(new_error));
        lines.extend(stage.digest.iter().map(|d| format!("stage digest {d}")));
        lines
    }

    pub fn apply(&mut self, record: &EventRecord) {
        let at = record.at;
        self.writer.last_seen = self.writer.last_seen.max(at);
        match &record.event {
            Event::RunCreated { workflow, source, plan_digest, params, selection, stages, .. } => {
                self.workflow.clone_from(workflow);
                self.source.clone_from(source);
                self.plan_digest = Some(plan_digest.clone());
                self.params.clone_from(params);
                self.selection = selection.clone();
                self.created = at;
                for planned in stages {
                    let stage = self.entry(&planned.stage);
                    stage.kind.clone_from(&planned.kind);
                    stage.main_metric.clone_from(&planned.main_metric);
                    stage.after.clone_from(&planned.after);
                }
            }
            Event::WriterOpened { epoch, writer } => self.writer_opened(at, *epoch, writer),
            Event::CancelRequested { why } => self.cancel_requested = Some(why.clone()),
            Event::RunFinished { outcome } => self.finished = Some((at, *outcome)),
            Event::StageExpanded { stage, instances } => self.expanded(stage, instances),
            Event::Heartbeat {} | Event::Unknown => {}
            event => {
                if let Some(key) = event.stage() {
                    self.entry(key).apply(at, event);
                }
            }
        }
    }

    fn entry(&mut self, key: &StageKey) -> &mut StageView {
        let at = *self.index.entry(key.clone()).or_insert_with(|| {
            self.stages.push(StageView { stage: ViewKey(key.clone()), ..StageView::default() });
            self.stages.len() - 1
        });
        &mut self.stages[at]
    }

    /// Handles a new writer: attempts that the previous one left open are lost, and stages that had not ended well are
    /// pending again.
    fn writer_opened(&mut self, at: i64, epoch: Epoch, name: &str) {
        self.writer = WriterView { epoch, name: name.to_string(), last_seen: at.max(self.writer.last_seen) };
        self.finished = None;
        self.cancel_requested = None;
        for stage in &mut self.stages {
            for attempt in stage.attempts.iter_mut().filter(|a| a.outcome.is_none()) {
                attempt.outcome = Some(AttemptOutcome::Lost);
                attempt.ended = Some(at);
                attempt.error = Some(Error::lost("the engine that ran the attempt has ended"));
            }
            if !matches!(stage.status, StageStatus::Done | StageStatus::Hit | StageStatus::Skipped) {
                stage.status = StageStatus::Pending;
                stage.error = None;
                stage.why = None;
                stage.ended = None;
            }
        }
    }

    /// Inserts the instances of a fan-out after it.
    fn expanded(&mut self, key: &StageKey, instances: &[StageKey]) {
        let group = self.entry(key);
        group.status = StageStatus::Expanded;
        let (kind, main_metric) = (group.kind.clone(), group.main_metric.clone());
        let known: BTreeSet<StageKey> = instances.iter().filter(|i| self.index.contains_key(*i)).cloned().collect();
        let Some(at) = self.index.get(key).map(|at| at + 1) else { return };
        let view = |instance: &StageKey| StageView {
            stage: ViewKey(instance.clone()),
            kind: kind.clone(),
            main_metric: main_metric.clone(),
            ..StageView::default()
        };
        let new: Vec<StageView> = instances.iter().filter(|i| !known.contains(*i)).map(view).collect();
        if !new.is_empty() {
            // In one splice, so that the later stages move only once.
            drop(self.stages.splice(at..at, new));
            let moved = self.stages.iter().enumerate().skip(at);
            self.index.extend(moved.map(|(at, stage)| (stage.stage.0.clone(), at)));
        }
    }
}

/// Returns `caused by: …` for every cause of an error.
fn causes(error: Option<&Error>) -> Vec<String> {
    error.into_iter().flat_map(Error::causes).map(|cause| format!("caused by: {cause}")).collect()
}
