//! Defines the parts of events: stages, selections, outcomes, grants, results of checks, and summaries of outputs.

use crate::artifact::{ArtifactKind, Manifest};
use crate::digest::Digest;
use crate::ids::StageKey;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A stage of the plan, as `run_created` lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedStage {
    /// The stage instance.
    pub stage: StageKey,
    /// Kind of the stage.
    pub kind: String,
    /// Metric shown as progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main_metric: Option<String>,
    /// Stages that must end first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<StageKey>,
}

/// Part of the plan that a run covers. Two commands continue the same run only if plan and selection are equal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// Run only these stages and their dependencies. Empty: everything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub until: Vec<String>,
    /// Run only these; the stages that they need must be published already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// Run these even if they are published; each publishes a new generation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rerun: Vec<String>,
}

/// One published output, small enough for the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputSummary {
    /// Kind of artifact.
    pub kind: ArtifactKind,
    /// Content digest.
    pub digest: Digest,
    /// Size of all files in bytes.
    pub size: u64,
    /// Number of rows, for tables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
}

/// Outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptOutcome {
    /// The result is stored; publication follows.
    Succeeded,
    /// The attempt reported an error, or its process failed.
    Failed,
    /// The attempt did not end within its `timeout`.
    TimedOut,
    /// The attempt was requested to stop.
    Cancelled,
    /// The process, machine or engine disappeared.
    Lost,
}

/// Resources granted to an attempt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantSummary {
    /// CPUs on each machine.
    pub cpus: u32,
    /// Bytes on each machine; 0 = not limited.
    #[serde(default)]
    pub memory: u64,
    /// GPU indices on the first machine.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<u32>,
    /// Names of the pool's machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<String>,
}

/// The result of one check: a metric compared with its bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// Name of the metric.
    pub metric: String,
    /// Number of a comparison that is checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<crate::metric::ComparisonField>,
    /// Value; `None` if the manifest has no such metric, which fails the check.
    pub value: Option<f64>,
    /// Lower bound, inclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Upper bound, inclusive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// Whether a failure fails the stage; otherwise it is a warning.
    pub gates: bool,
    /// Role of the check (`premise`, `mechanism`, `effect`, …), if the file gives one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Whether the value is within the bounds.
    pub passed: bool,
}

/// Outcome of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// Every stage was published, a hit, or skipped.
    Succeeded,
    /// At least one stage failed.
    Failed,
    /// The run was stopped before its end.
    Cancelled,
}

/// Returns the outputs of a manifest in the journal's short form.
pub fn summarize_outputs(manifest: &Manifest) -> BTreeMap<String, OutputSummary> {
    let one = |o: &crate::Output| OutputSummary {
        kind: o.kind,
        digest: o.digest.clone(),
        size: o.size(),
        rows: o.table.as_ref().map(|t| t.rows),
    };
    manifest.outputs.iter().map(|(name, output)| (name.clone(), one(output))).collect()
}
