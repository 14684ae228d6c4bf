//! The contract of one attempt: what it is told (`spec.json`), what it says while it runs (JSON Lines on stdout), and what it
//! leaves (`result.json`). One command line on any executor: `trainyard attempt <url>` (`docs/design/0004`).
//!
//! Why so: an executor carries nothing but that URL and lines of text, so attempts run the same wherever they run. Refuses: values of
//! secrets (a spec says where they come from), and publication, which is the engine's.

use crate::artifact::{ArtifactKind, Manifest, Output};
use crate::digest::Digest;
use crate::error::Error;
use crate::ids::{AttemptNumber, RunId, StageKey};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// One input artifact as an attempt sees it: the reference, and the output's files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptInput {
    pub stage_digest: Digest,
    /// Generation of the manifest that was read.
    #[serde(default)]
    pub generation: u32,
    pub output_name: String,
    pub output: Output,
}

/// An output port that the attempt must fill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptOutput {
    pub kind: ArtifactKind,
    /// A missing optional output is not an error.
    #[serde(default)]
    pub optional: bool,
}

/// What the attempt may use.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptResources {
    /// Threads that compute.
    pub cpus: u32,
    /// Bytes; 0 = no limit.
    #[serde(default)]
    pub memory: u64,
    /// Indices of the GPUs given.
    #[serde(default)]
    pub gpus: Vec<u32>,
}

/// `spec.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptSpec {
    /// 1.
    pub format: u32,
    pub workflow: String,
    pub run: RunId,
    pub stage: StageKey,
    pub attempt: AttemptNumber,
    pub stage_digest: Digest,
    pub kind: String,
    pub kind_version: u32,
    /// Complete: defaults filled, expressions replaced, `source` values as absolute paths or URLs.
    pub config: Value,
    /// Port → artifacts, in order.
    pub inputs: BTreeMap<String, Vec<AttemptInput>>,
    pub outputs: BTreeMap<String, AttemptOutput>,
    pub resources: AttemptResources,
    /// Milliseconds from the start of the attempt; none = no limit.
    #[serde(default)]
    pub timeout_millis: Option<u64>,
    /// Environment for `run:` stages.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Secret name → where its value comes from (`env:HF_TOKEN`); the values never stand in this file.
    #[serde(default)]
    pub secrets: BTreeMap<String, String>,
    /// Absolute path of a source on a disk → the content digest that the stage digest was made of. With other content there, what
    /// the attempt computes would be published under a wrong name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, Digest>,
    /// Whether everything that is stored is flushed to the disk before a put returns (the site file's `durability: fsync`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fsync: bool,
}

/// `result.json`, written once at the end of a successful attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptResult {
    /// 1.
    pub format: u32,
    pub run: RunId,
    pub stage: StageKey,
    pub attempt: AttemptNumber,
    pub stage_digest: Digest,
    pub outputs: BTreeMap<String, Output>,
    pub metrics: BTreeMap<String, f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<crate::metric::Comparison>,
    pub measured: BTreeMap<String, Value>,
}

/// Severity of a log line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    Info,
    Warn,
    Error,
}

/// One line of an attempt's stdout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AttemptMessage {
    /// `done` of `total` units (`steps`, `rows`, `problems`), with the stage's main metric.
    Progress {
        done: u64,
        total: u64,
        unit: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        metric: Option<(String, f64)>,
    },
    /// A point of a learning curve.
    Metric {
        name: String,
        step: u64,
        value: f64,
    },
    Log {
        level: LogLevel,
        text: String,
    },
    /// A resume point of this step is stored.
    Checkpoint {
        step: u64,
    },
    /// `result.json` is stored.
    Result {},
    Error {
        error: Error,
    },
}

/// A resume point: `checkpoints/<aa>/<stage-digest>/<step>-<attempt>.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckpointRecord {
    /// 1.
    pub format: u32,
    pub stage_digest: Digest,
    pub step: u64,
    pub attempt: AttemptNumber,
    pub files: Vec<crate::artifact::FileEntry>,
}

impl AttemptSpec {
    /// The inputs of a manifest that this attempt's result will become.
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
