//! Defines the contract of one attempt: its inputs (`spec.json`, `cancel`), its messages while it runs
//! (`heartbeat.json`, chunks of log and metrics), and its outputs (`result.json` or `failure.json`).
//!
//! All of these files are in the attempt's folder of the store, so `trainyard attempt <url>` is the same command on
//! every executor and needs only its URL (`docs/design/0004`). Where the engine holds the attempt's pipes, messages are
//! sent through them as JSON Lines instead, which is faster. A spec names the sources of secrets and never contains
//! their values.

use crate::artifact::{ArtifactKind, FileEntry, Manifest, Output};
use crate::digest::Digest;
use crate::error::Error;
use crate::ids::{AttemptNumber, RunId, StageKey};
pub use crate::log_record::{LogLevel, LogRecord};
use crate::peers::AttemptPeer;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Environment variable that marks the processes which an attempt starts. Its value begins with the attempt's URL.
pub const MARK: &str = "TRAINYARD_ATTEMPT";

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
    /// Kind, content digest and files; the table's preview is left out.
    pub output: Output,
}

/// An output port that the attempt must fill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptOutput {
    /// Kind of artifact in the port.
    pub kind: ArtifactKind,
    /// Whether the output may be missing.
    #[serde(default)]
    pub optional: bool,
}

/// Resources of the attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptResources {
    /// Number of compute threads.
    pub cpus: u32,
    /// Bytes of memory; 0 = no limit.
    #[serde(default)]
    pub memory: u64,
    /// Indices of the usable GPUs.
    #[serde(default)]
    pub gpus: Vec<u32>,
}

impl Default for AttemptResources {
    /// Returns one thread, and no limits.
    fn default() -> Self {
        Self { cpus: 1, memory: 0, gpus: Vec::new() }
    }
}

/// Specification of an attempt: `spec.json` in its folder of the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptSpec {
    /// Format version: 1.
    pub format: u32,
    /// Name of the workflow.
    pub workflow: String,
    /// Run id.
    pub run: RunId,
    /// Stage instance to compute.
    pub stage: StageKey,
    /// Number among the stage's attempts in this run.
    pub attempt: AttemptNumber,
    /// Digest under which the result will be published.
    pub stage_digest: Digest,
    /// Stage kind, as in `uses`.
    pub kind: String,
    /// Version of the kind.
    pub kind_version: u32,
    /// Complete config: defaults filled in, expressions replaced, `source` values as absolute paths or URLs.
    pub config: Value,
    /// Artifacts of each input port, in order.
    pub inputs: BTreeMap<String, Vec<AttemptInput>>,
    /// Output ports that the attempt must fill.
    pub outputs: BTreeMap<String, AttemptOutput>,
    /// Resources.
    pub resources: AttemptResources,
    /// Milliseconds from the start of the attempt; `None` = no limit.
    #[serde(default)]
    pub timeout_millis: Option<u64>,
    /// Environment of `run:` stages.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Secret name → source of its value (`env:HF_TOKEN`), never the value itself.
    #[serde(default)]
    pub secrets: BTreeMap<String, String>,
    /// All other secrets of the site, by name with the source of the value: variables that commands do not get.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub withheld: BTreeMap<String, String>,
    /// Absolute path of a source on a disk → the content digest that entered the stage digest. If the content has
    /// changed since, the result would be published under an incorrect digest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, Digest>,
    /// Files of the sources that are transferred as objects of the store, by the path that `sources` names; a source
    /// that is one file has one entry with an empty path. Sources that are missing here are available where the attempt
    /// runs, under the same path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub uploaded: BTreeMap<String, Vec<FileEntry>>,
    /// Milliseconds that the run may be without a living writer before the attempt ends itself (the site file's
    /// `orphan_timeout`); `None` = [`ORPHAN_TIMEOUT`]. An attempt on the pipes of its engine ends with the engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub orphan_timeout_millis: Option<u64>,
    /// Whether to flush every put to the disk before it returns (the site file's `durability: fsync`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fsync: bool,
    /// Milliseconds that the store may be unavailable (the site file's `store_outage`); `None` = [`STORE_OUTAGE`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_outage_millis: Option<u64>,
    /// Attempts that run at the same time and reach each other, including this one; empty if it runs alone on one
    /// machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peers: Vec<AttemptPeer>,
    /// Milliseconds to wait for the machines and, once the attempt runs, for its peers (the remainder of `resources:
    /// {wait: …}`); `None` = no limit, and [`crate::peers::DEFAULT_PEER_WAIT`] for its peers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_millis: Option<u64>,
}

/// Default time for which runs and attempts wait for an unavailable store.
pub const STORE_OUTAGE: Duration = Duration::from_secs(600);

/// Default time in which a started attempt must send its first heartbeat: an image may be pulled first, or a file
/// system mounted.
pub const FIRST_HEARTBEAT: Duration = Duration::from_secs(600);

/// Default time for which an attempt outlives the last heartbeat of a writer of its run.
pub const ORPHAN_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Interval between two heartbeats of an attempt.
pub const HEARTBEAT: Duration = Duration::from_secs(10);

/// Heartbeat of an attempt without a pipe to its engine: `heartbeat.json` in its folder, overwritten each time. No
/// decision depends on its times, which are those of the attempt's clock: observers check whether `beat` grows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// Format version: 1.
    pub format: u32,
    /// Number of the heartbeat, from 1.
    pub beat: u64,
    /// Milliseconds since 1970-01-01 UTC.
    pub at: i64,
    /// Name of the machine.
    pub host: String,
    /// Current phase of the attempt.
    pub phase: Phase,
    /// Last progress message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<AttemptMessage>,
    /// Steps done at the last stored resume point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<u64>,
}

/// Phase of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Fetches its inputs.
    Fetching,
    /// Runs its stage.
    Running,
    /// Stores its outputs.
    Storing,
}

/// Record of an attempt without success, written once at its end: `failure.json`. A `result.json` in the same folder
/// takes precedence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptFailure {
    /// Format version: 1.
    pub format: u32,
    /// Run id, copied from the spec, as are the next two fields.
    pub run: RunId,
    /// Stage instance.
    pub stage: StageKey,
    /// Attempt number.
    pub attempt: AttemptNumber,
    /// Outcome of the attempt.
    pub outcome: crate::event::AttemptOutcome,
    /// Cause of the failure.
    pub error: Error,
    /// Whether the attempt ended because its run had no living writer, or was over. A writer that resumes the run
    /// starts the stage again and does not count such an attempt as a failed try.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unwanted: bool,
}

/// Request to end an attempt: `cancel` in its folder, written once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CancelRequest {
    /// Format version: 1.
    pub format: u32,
    /// Whether the attempt has exceeded its timeout; otherwise its run or a user stops it.
    #[serde(default)]
    pub timed_out: bool,
}

/// Record of a successful attempt, written once at its end: `result.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptResult {
    /// Format version: 1.
    pub format: u32,
    /// Run id, copied from the spec, as are the next three fields.
    pub run: RunId,
    /// Stage instance.
    pub stage: StageKey,
    /// Attempt number.
    pub attempt: AttemptNumber,
    /// Stage digest.
    pub stage_digest: Digest,
    /// Stored outputs by port; optional ones may be missing.
    pub outputs: BTreeMap<String, Output>,
    /// Metrics by name; all finite.
    pub metrics: BTreeMap<String, f64>,
    /// Comparisons of two models or arms; all numbers finite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<crate::metric::Comparison>,
    /// Times, rates, hosts and peak memory of the attempt; not part of any digest.
    pub measured: BTreeMap<String, Value>,
}

/// One line of an attempt's stdout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AttemptMessage {
    /// Progress of the attempt.
    Progress {
        /// Units done.
        done: u64,
        /// Total units; 0 = unknown.
        total: u64,
        /// Unit that is counted: `steps`, `rows`, `problems`.
        unit: String,
        /// Name and value of the stage's main metric.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metric: Option<(String, f64)>,
    },
    /// Point of a learning curve.
    Metric {
        /// Name of the curve.
        name: String,
        /// Step, from 1.
        step: u64,
        /// Value at that step.
        value: f64,
    },
    /// Line for the log.
    Log {
        /// Severity.
        level: LogLevel,
        /// Message.
        text: String,
    },
    /// Notification that a resume point is stored.
    Checkpoint {
        /// Steps done at that point.
        step: u64,
    },
    /// Notification that `result.json` is stored.
    Result {},
    /// Failure of the attempt.
    Error {
        /// Cause of the failure.
        error: Error,
    },
}

/// Resume point: `checkpoints/<aa>/<stage-digest>/<step>-<attempt>.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointRecord {
    /// Format version: 1.
    pub format: u32,
    /// Digest of the stage.
    pub stage_digest: Digest,
    /// Steps done.
    pub step: u64,
    /// Attempt that stored the resume point.
    pub attempt: AttemptNumber,
    /// Files that the remaining steps need.
    pub files: Vec<FileEntry>,
}

impl AttemptSpec {
    /// Returns the manifest that publishes this attempt's result as the given generation.
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
