//! The journal's events: the run is what they fold to (resume, `runs show`, the web page and `explain` read nothing else).
//!
//! Shape: a journal batch holds records, one JSON object each: `{"at": <unix ms>, "type": "attempt_started", …}`. Events are
//! only ever added, and fields only with a default; a reader meets an event it does not know as [`Event::Unknown`] and goes on.
//! Refuses: payloads. A record names manifests, digests and small metrics; logs, rows and curves live in objects of their own.

use crate::artifact::{ArtifactKind, GenerationReason, Manifest};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::ids::{AttemptNumber, Epoch, StageKey};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The version of the event vocabulary; written into `run_created`.
pub const EVENT_FORMAT: u32 = 1;

/// An event with the time at which its writer decided it.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Milliseconds since 1970-01-01 UTC, by the writer's clock.
    pub at: i64,
    pub event: Event,
}

/// A stage of the plan, as `run_created` lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedStage {
    pub stage: StageKey,
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main_metric: Option<String>,
    /// What must have ended first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<StageKey>,
}

/// Which part of the plan a run covers; part of what makes two commands "the same run".
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// Run these and what they need, nothing else. Empty: everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub until: Vec<String>,
    /// Run only these; what they need must be published already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// Run these even if they are published; each gets a new generation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rerun: Vec<String>,
}

/// One published output, small enough for the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputSummary {
    pub kind: ArtifactKind,
    /// Content digest.
    pub digest: Digest,
    /// Bytes.
    pub size: u64,
    /// Rows of a table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// Its result is stored; publication follows.
    Succeeded,
    Failed,
    TimedOut,
    Cancelled,
    /// Its process, machine or engine disappeared.
    Lost,
}

/// What an attempt was given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantSummary {
    pub cpus: u32,
    /// Bytes; 0 = does not say.
    #[serde(default)]
    pub memory: u64,
    /// GPU indices on the first machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<u32>,
    /// Machines of the pool, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<String>,
}

/// A bound that was compared with a metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    pub metric: String,
    /// Which number of a comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<crate::metric::Of>,
    /// None: the manifest has no such metric, which fails the check.
    pub value: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// True: a failure fails the stage; false: a failure is a warning.
    pub gates: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    pub passed: bool,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    Succeeded,
    Failed,
    Cancelled,
}

/// What happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    RunCreated {
        format: u32,
        workflow: String,
        /// The workflow file.
        source: String,
        plan_digest: Digest,
        params: BTreeMap<String, Value>,
        #[serde(default)]
        selection: Selection,
        stages: Vec<PlannedStage>,
    },
    /// A writer owns the journal from here on. The store writes it when a journal is opened.
    WriterOpened {
        epoch: Epoch,
        /// `<host>:<pid>:<start>` of the process, or another unique name.
        #[serde(default)]
        writer: String,
    },
    /// A late `for_each` became these instances.
    StageExpanded {
        stage: StageKey,
        instances: Vec<StageKey>,
    },
    /// The stage's digest is known and the stage must run.
    StageDigested {
        stage: StageKey,
        digest: Digest,
        /// Why it is no hit.
        why: String,
    },
    /// The artifact is there already (published by another run, or by a stage of equal digest in this one).
    CacheHit {
        stage: StageKey,
        digest: Digest,
        generation: u32,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        metrics: BTreeMap<String, f64>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        comparisons: Vec<crate::metric::Comparison>,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        outputs: BTreeMap<String, OutputSummary>,
    },
    /// The stage is ready, but no pool can take it now.
    Queued {
        stage: StageKey,
        why: String,
    },
    AttemptStarted {
        stage: StageKey,
        attempt: AttemptNumber,
        digest: Digest,
        /// `in_process`, or the pool's name.
        pool: String,
        grant: GrantSummary,
    },
    AttemptEnded {
        stage: StageKey,
        attempt: AttemptNumber,
        outcome: AttemptOutcome,
        /// Why it did not succeed; of a success: why it is not published yet.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Error>,
    },
    RetryScheduled {
        stage: StageKey,
        /// The number that the next attempt will have.
        attempt: AttemptNumber,
        /// Not before this time, in milliseconds since 1970-01-01 UTC.
        not_before: i64,
    },
    Published {
        stage: StageKey,
        attempt: AttemptNumber,
        digest: Digest,
        generation: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<GenerationReason>,
        /// True: another writer was first; its outputs were taken.
        #[serde(default)]
        adopted: bool,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        metrics: BTreeMap<String, f64>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        comparisons: Vec<crate::metric::Comparison>,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        outputs: BTreeMap<String, OutputSummary>,
    },
    ChecksEvaluated {
        stage: StageKey,
        results: Vec<CheckResult>,
    },
    Skipped {
        stage: StageKey,
        why: String,
    },
    /// Never started: something it needs did not succeed.
    Blocked {
        stage: StageKey,
        by: StageKey,
    },
    /// The stage will not be tried again in this run.
    StageFailed {
        stage: StageKey,
        error: Error,
    },
    /// The stage was stopped, or never started, because the run stops.
    StageCancelled {
        stage: StageKey,
    },
    CancelRequested {
        why: String,
    },
    /// An idle writer is alive.
    Heartbeat {},
    RunFinished {
        outcome: RunOutcome,
    },
    /// Written by a later version.
    #[serde(other)]
    Unknown,
}

impl Event {
    /// The stage that the event is about.
    pub fn stage(&self) -> Option<&StageKey> {
        match self {
            Self::StageExpanded { stage, .. }
            | Self::StageDigested { stage, .. }
            | Self::CacheHit { stage, .. }
            | Self::Queued { stage, .. }
            | Self::AttemptStarted { stage, .. }
            | Self::AttemptEnded { stage, .. }
            | Self::RetryScheduled { stage, .. }
            | Self::Published { stage, .. }
            | Self::ChecksEvaluated { stage, .. }
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

/// The journal's view of a manifest's outputs.
pub fn summarize_outputs(manifest: &Manifest) -> BTreeMap<String, OutputSummary> {
    let one = |o: &crate::Output| OutputSummary {
        kind: o.kind,
        digest: o.digest.clone(),
        size: o.size(),
        rows: o.table.as_ref().map(|t| t.rows),
    };
    manifest.outputs.iter().map(|(name, output)| (name.clone(), one(output))).collect()
}

impl Record {
    /// The journal's form: the event's object with `at` beside its `type`.
    pub fn to_value(&self) -> Result<Value> {
        match serde_json::to_value(&self.event) {
            Ok(Value::Object(mut object)) => {
                object.insert("at".to_string(), self.at.into());
                Ok(Value::Object(object))
            }
            Ok(_) => Err(Error::bug("an event has no JSON object form")),
            Err(e) => Err(Error::bug(format!("an event has no JSON form: {e}"))),
        }
    }
    /// Reads the journal's form. A missing `at` reads as 0; an event type of a later version as [`Event::Unknown`].
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
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn records_survive_the_journal() {
        let record = Record {
            at: 12,
            event: Event::AttemptEnded {
                stage: StageKey("rl[seed=1]".into()),
                attempt: 2,
                outcome: AttemptOutcome::TimedOut,
                error: Some(Error::retryable("6h were up")),
            },
        };
        let value = record.to_value().unwrap();
        assert_eq!(value["type"], "attempt_ended");
        assert_eq!(value["at"], 12);
        assert_eq!(Record::from_value(&value).unwrap(), record);
        let beat = Record { at: 1, event: Event::Heartbeat {} };
        assert_eq!(Record::from_value(&beat.to_value().unwrap()).unwrap(), beat);
    }

    #[test]
    fn later_events_and_fields_are_met_with_patience() {
        assert_eq!(
            Record::from_value(&json!({"at": 3, "type": "invented_later", "x": 1})).unwrap(),
            Record { at: 3, event: Event::Unknown }
        );
        let skipped = json!({"at": 3, "type": "skipped", "stage": "a", "why": "when", "more": [1]});
        assert!(matches!(Record::from_value(&skipped).unwrap().event, Event::Skipped { .. }));
        let opened = json!({"type": "writer_opened", "epoch": 4});
        assert_eq!(
            Record::from_value(&opened).unwrap(),
            Record { at: 0, event: Event::WriterOpened { epoch: 4, writer: String::new() } }
        );
    }

    #[test]
    fn a_broken_event_names_itself() {
        let error = Record::from_value(&json!({"type": "attempt_started", "stage": "a"})).unwrap_err();
        assert!(error.message.contains("attempt_started"), "{error}");
    }
}
