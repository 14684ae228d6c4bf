//! The contract of one attempt: what it is told (`spec.json`, `cancel`), what it says while it runs (`heartbeat.json`,
//! chunks of log and metrics), and what it leaves (`result.json` or `failure.json`).
//!
//! All of it lies in the attempt's folder of the store, so `trainyard attempt <url>` is the same command everywhere and
//! needs nothing but its URL (`docs/design/0004`). Where the engine holds the attempt's pipes, what it says goes
//! through them as JSON Lines instead, which is faster. A spec names where secrets come from and never holds their
//! values.

use crate::artifact::{ArtifactKind, FileEntry, Manifest, Output};
use crate::digest::Digest;
use crate::error::Error;
use crate::ids::{AttemptNumber, RunId, StageKey};
use crate::peers::Peer;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// One input artifact as an attempt sees it: where it was published, and its files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptInput {
    /// Digest of the stage that published it.
    pub stage_digest: Digest,
    /// Generation of the manifest that was read.
    #[serde(default)]
    pub generation: u32,
    /// Name of the output port in that manifest.
    pub output_name: String,
    /// Its kind, content digest and files; the table's preview is left out.
    pub output: Output,
}

/// An output port that the attempt must fill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptOutput {
    /// Kind of artifact that the port holds.
    pub kind: ArtifactKind,
    /// A missing optional output is not an error.
    #[serde(default)]
    pub optional: bool,
}

/// What the attempt may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptResources {
    /// Number of compute threads.
    pub cpus: u32,
    /// Bytes of memory; 0 = no limit.
    #[serde(default)]
    pub memory: u64,
    /// Indices of the GPUs it may use.
    #[serde(default)]
    pub gpus: Vec<u32>,
}

impl Default for AttemptResources {
    /// One thread, and no limits.
    fn default() -> Self {
        Self { cpus: 1, memory: 0, gpus: Vec::new() }
    }
}

/// Everything that an attempt is told: `spec.json` in its folder of the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptSpec {
    /// Version of this form: 1.
    pub format: u32,
    /// Name of the workflow.
    pub workflow: String,
    /// The run that it belongs to.
    pub run: RunId,
    /// The stage instance that it computes.
    pub stage: StageKey,
    /// Its number among the stage's attempts in this run.
    pub attempt: AttemptNumber,
    /// The digest under which its result will be published.
    pub stage_digest: Digest,
    /// Stage kind, as in `uses`.
    pub kind: String,
    /// Version of the kind.
    pub kind_version: u32,
    /// Complete: defaults filled in, expressions replaced, `source` values as absolute paths or URLs.
    pub config: Value,
    /// Artifacts of each input port, in order.
    pub inputs: BTreeMap<String, Vec<AttemptInput>>,
    /// The output ports it must fill.
    pub outputs: BTreeMap<String, AttemptOutput>,
    /// What it may use.
    pub resources: AttemptResources,
    /// Milliseconds from the start of the attempt; none = no limit.
    #[serde(default)]
    pub timeout_millis: Option<u64>,
    /// Environment for `run:` stages.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Secret name → where its value comes from (`env:HF_TOKEN`), never the value itself.
    #[serde(default)]
    pub secrets: BTreeMap<String, String>,
    /// Absolute path of a source on a disk → the content digest that entered the stage digest. If the content has
    /// changed since, the result would be published under a wrong name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, Digest>,
    /// Files of the sources that travel as objects of the store, by the path that `sources` names; a source that is one
    /// file has one entry with an empty path. Sources that are missing here lie where the attempt runs, under the same
    /// path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub uploaded: BTreeMap<String, Vec<FileEntry>>,
    /// Milliseconds that the run may be without a living writer before the attempt ends itself (the site file's
    /// `orphan_timeout`); none = [`ORPHAN_TIMEOUT`]. An attempt on the pipes of its engine ends with the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orphan_timeout_millis: Option<u64>,
    /// Flush every put to the disk before it returns (the site file's `durability: fsync`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fsync: bool,
    /// Milliseconds that the store may be away (the site file's `store_outage`); none = [`STORE_OUTAGE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_outage_millis: Option<u64>,
    /// The attempts that run at the same time and are told of each other, this one included; empty if it runs alone on
    /// one machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<Peer>,
    /// Milliseconds that it may wait for its machines, and once it runs for its peers (what is left of `resources:
    /// {wait: …}`); none = no limit, and [`crate::peers::PATIENCE`] for its peers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_millis: Option<u64>,
}

/// How long runs and attempts wait for a store that is away, unless the site file says otherwise.
pub const STORE_OUTAGE: Duration = Duration::from_secs(600);

/// How long an attempt outlives the last sign of a writer of its run, unless the site file says otherwise.
pub const ORPHAN_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Time between two heartbeats of an attempt.
pub const HEARTBEAT: Duration = Duration::from_secs(10);

/// A sign of life of an attempt that has no pipe to its engine: `heartbeat.json` in its folder, written over each time.
/// Nothing is decided by its times, which are those of the attempt's clock: who watches an attempt looks whether `beat`
/// grows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Version of this form: 1.
    pub format: u32,
    /// Number of this sign, from 1.
    pub beat: u64,
    /// Milliseconds since 1970-01-01 UTC.
    pub at: i64,
    /// Name of the machine.
    pub host: String,
    /// What the attempt does.
    pub phase: Phase,
    /// Its last message of progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<AttemptMessage>,
    /// Steps done at its last stored resume point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<u64>,
}

/// What an attempt does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// It fetches its inputs.
    Fetching,
    /// Its stage runs.
    Running,
    /// It stores its outputs.
    Storing,
}

/// What an attempt without success leaves, written once at its end: `failure.json`. A `result.json` beside it counts
/// more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptFailure {
    /// Version of this form: 1.
    pub format: u32,
    /// Copied from the spec, as are the next two.
    pub run: RunId,
    /// The stage instance.
    pub stage: StageKey,
    /// The attempt's number.
    pub attempt: AttemptNumber,
    /// How it ended.
    pub outcome: crate::event::AttemptOutcome,
    /// Why.
    pub error: Error,
    /// It ended because nobody seemed to want it: its run had no living writer, or was over. Whoever goes on with the
    /// run wants it after all, so this is no failed try.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unwanted: bool,
}

/// The request that an attempt ends: `cancel` in its folder, written once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRequest {
    /// Version of this form: 1.
    pub format: u32,
    /// Whether the attempt's time is up; otherwise its run, or somebody, stops it.
    #[serde(default)]
    pub timed_out: bool,
}

/// What a successful attempt leaves, written once at its end: `result.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptResult {
    /// Version of this form: 1.
    pub format: u32,
    /// Copied from the spec, as are the next three.
    pub run: RunId,
    /// The stage instance.
    pub stage: StageKey,
    /// The attempt's number.
    pub attempt: AttemptNumber,
    /// The stage digest.
    pub stage_digest: Digest,
    /// Stored outputs by port; optional ones may be missing.
    pub outputs: BTreeMap<String, Output>,
    /// Metrics by name; all finite.
    pub metrics: BTreeMap<String, f64>,
    /// Comparisons of two models or arms; all numbers finite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<crate::metric::Comparison>,
    /// Times, rates, hosts and peak memory of the attempt; no digest sees them.
    pub measured: BTreeMap<String, Value>,
}

/// Severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Normal progress.
    Info,
    /// Something to look at that did not stop the attempt.
    Warn,
    /// The attempt failed because of it.
    Error,
}

impl LogLevel {
    /// The lower-case name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

/// One entry of an attempt's stored log: a line of JSON in a log chunk.
///
/// ```
/// use trainyard_core::attempt::{LogLevel, LogRecord};
///
/// let record = LogRecord { at: Some(1_700_000_000_000), level: LogLevel::Warn, text: "slow store".into() };
/// assert_eq!(LogRecord::parse(&record.to_line()), record);
/// let old = LogRecord::parse("warning: slow store");
/// assert_eq!((old.at, old.level, old.text.as_str()), (None, LogLevel::Warn, "slow store"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRecord {
    /// When the engine received it, in milliseconds since 1970-01-01 UTC; none in logs written before version 0.2.
    pub at: Option<i64>,
    /// Its severity.
    pub level: LogLevel,
    /// What was said; may have several lines.
    pub text: String,
}

impl LogRecord {
    /// The stored form: one line of JSON without the line feed.
    pub fn to_line(&self) -> String {
        serde_json::json!({"at": self.at, "level": self.level.name(), "text": self.text}).to_string()
    }
    /// Reads a line of a log chunk. Chunks of earlier versions hold plain text without times, with `warning: ` or
    /// `error: ` in front of lines above [`LogLevel::Info`].
    pub fn parse(line: &str) -> Self {
        match serde_json::from_str::<Self>(line) {
            Ok(record) if record.at.is_some() => record,
            _ => Self::plain(line),
        }
    }
    fn plain(line: &str) -> Self {
        let levels = [("warning: ", LogLevel::Warn), ("error: ", LogLevel::Error)];
        let marked = levels.into_iter().find_map(|(mark, level)| Some((level, line.strip_prefix(mark)?)));
        let (level, text) = marked.unwrap_or((LogLevel::Info, line));
        Self { at: None, level, text: text.to_string() }
    }
}

/// One line of an attempt's stdout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AttemptMessage {
    /// How far the attempt is.
    Progress {
        /// Units done.
        done: u64,
        /// Units in all; 0 = unknown.
        total: u64,
        /// What is counted: `steps`, `rows`, `problems`.
        unit: String,
        /// The stage's main metric, as name and value.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metric: Option<(String, f64)>,
    },
    /// A point of a learning curve.
    Metric {
        /// Name of the curve.
        name: String,
        /// Step, from 1.
        step: u64,
        /// Value at that step.
        value: f64,
    },
    /// A line for the log.
    Log {
        /// Its severity.
        level: LogLevel,
        /// What to say.
        text: String,
    },
    /// A resume point is stored.
    Checkpoint {
        /// Steps done at that point.
        step: u64,
    },
    /// `result.json` is stored.
    Result {},
    /// The attempt failed.
    Error {
        /// Why.
        error: Error,
    },
}

/// A resume point: `checkpoints/<aa>/<stage-digest>/<step>-<attempt>.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointRecord {
    /// Version of this form: 1.
    pub format: u32,
    /// The stage it belongs to.
    pub stage_digest: Digest,
    /// Steps done.
    pub step: u64,
    /// The attempt that stored it.
    pub attempt: AttemptNumber,
    /// Everything that the remaining steps need.
    pub files: Vec<FileEntry>,
}

impl AttemptSpec {
    /// The manifest that publishes this attempt's result as the given generation.
    pub fn manifest(
        &self,
        result: AttemptResult,
        generation: u32,
        reason: Option<crate::artifact::GenerationReason>,
    ) -> Manifest {
        let inputs = self.inputs.iter().map(|(port, list)| {
            let refs = list.iter().map(|i| crate::artifact::ArtifactRef {
                stage_digest: i.stage_digest.clone(),
                generation: i.generation,
                output: i.output_name.clone(),
                kind: i.output.kind,
                digest: i.output.digest.clone(),
            });
            (port.clone(), refs.collect())
        });
        Manifest {
            format: 1,
            stage_digest: self.stage_digest.clone(),
            generation,
            reason,
            kind: self.kind.clone(),
            kind_version: self.kind_version,
            config: self.config.clone(),
            inputs: inputs.collect(),
            outputs: result.outputs,
            metrics: result.metrics,
            comparisons: result.comparisons,
            provenance: crate::artifact::Provenance {
                workflow: self.workflow.clone(),
                run: self.run.clone(),
                stage: self.stage.clone(),
                attempt: self.attempt,
            },
            measured: result.measured,
        }
    }
}
