//! Describes the outputs of a stage as immutable files, and the manifest that publishes them (`docs/design/0004`).
//!
//! Only [`Manifest::measured`] contains times, rates and hosts, so that the outputs of equal runs are equal.

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::ids::{AttemptNumber, RunId, StageKey};
use crate::metric::{Comparison, qualified_name};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path};

/// The six kinds of artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArtifactKind {
    /// Problems to solve (Parquet).
    Problems,
    /// Rollout records with verdicts and labels (Parquet).
    Trajectories,
    /// A Hugging Face folder.
    Model,
    /// Metrics with confidence intervals, tables, plots.
    Report,
    /// Any other rows (Parquet).
    Table,
    /// A folder of any files.
    Files,
}

impl ArtifactKind {
    /// All six kinds.
    pub const ALL: [Self; 6] =
        [Self::Problems, Self::Trajectories, Self::Model, Self::Report, Self::Table, Self::Files];
    /// Returns the lower-case name, as in workflow files and manifests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Problems => "problems",
            Self::Trajectories => "trajectories",
            Self::Model => "model",
            Self::Report => "report",
            Self::Table => "table",
            Self::Files => "files",
        }
    }
}

impl fmt::Display for ArtifactKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One file of an output; its bytes are `objects/<aa>/<digest>` in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileEntry {
    /// Relative path with `/` and without `..`.
    pub path: String,
    /// SHA-256 of the file's bytes.
    pub digest: Digest,
    /// Size in bytes.
    pub size: u64,
}

impl FileEntry {
    /// Returns whether the path stays inside the folder in which the output is laid out. A file with another path could
    /// be written anywhere on the machine.
    pub fn stays_inside(&self) -> bool {
        let mut parts = Path::new(&self.path).components().peekable();
        parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
    }
}

/// Statistics of one column, enough to inspect a table without downloading it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ColumnStats {
    /// Column name.
    pub name: String,
    /// The Arrow type, as Arrow prints it.
    pub r#type: String,
    /// Number of nulls.
    pub nulls: u64,
    /// Smallest value of a column of numbers, booleans or text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Value>,
    /// Largest value, as `min`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Value>,
    /// Mean of a column of numbers or booleans; nulls and NaN do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
}

/// Summary of a Parquet output, available without reading it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TableSummary {
    /// Number of rows.
    pub rows: u64,
    /// Statistics of every column, in the file's order.
    pub columns: Vec<ColumnStats>,
    /// The first rows as JSON objects, at most 100 rows and 256 KiB; long cells are cut with `…`.
    pub preview: Vec<Value>,
}

/// The content of one output port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    /// Kind of artifact.
    pub kind: ArtifactKind,
    /// Content digest over kind, files and metadata: equal bytes are equal artifacts, whichever stage made them.
    pub digest: Digest,
    /// Files, sorted by path.
    pub files: Vec<FileEntry>,
    /// Summary of the table, for kinds that are one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<TableSummary>,
    /// Facts that downstream stages and `check` read: tokenizer digest, role of an evaluation set, …
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Value>,
}

impl Output {
    /// Creates an output: sorts its files by path and computes its content digest.
    pub fn new(
        kind: ArtifactKind,
        mut files: Vec<FileEntry>,
        table: Option<TableSummary>,
        metadata: BTreeMap<String, Value>,
    ) -> Result<Self> {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let digest = Digest::of_json(&(kind, &files, &metadata))?;
        Ok(Self { kind, digest, files, table, metadata })
    }
    /// Returns the size of all files in bytes.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|f| f.size).sum()
    }
}

/// A published output, named by the manifest that published it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ArtifactRef {
    /// Digest of the stage.
    pub stage_digest: Digest,
    /// Generation of the manifest.
    pub generation: u32,
    /// Output port name.
    pub output: String,
    /// Kind of artifact.
    pub kind: ArtifactKind,
    /// Content digest of the output.
    pub digest: Digest,
}

/// Why a manifest of a generation above 0 was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GenerationReason {
    /// An object or manifest of the previous generation is missing or corrupt.
    Lost,
    /// Requested with `--rerun`.
    Rerun,
    /// The stage has `cache: false`.
    Uncached,
}

/// The attempt that made an artifact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Provenance {
    /// Name of the workflow.
    pub workflow: String,
    /// Run id.
    pub run: RunId,
    /// Stage instance.
    pub stage: StageKey,
    /// Attempt number.
    pub attempt: AttemptNumber,
}

/// Record that publishes the outputs of a stage. The publication is its put into the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// Version of this form: 1.
    pub format: u32,
    /// Digest of the stage, under which the manifest is published.
    pub stage_digest: Digest,
    /// 0, or one more than the replaced generation.
    pub generation: u32,
    /// Reason for a generation above 0; absent for generation 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<GenerationReason>,
    /// Stage kind.
    pub kind: String,
    /// Version of the kind.
    pub kind_version: u32,
    /// Complete config, with defaults filled in.
    pub config: Value,
    /// Artifacts that each input port read, in order.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, Vec<ArtifactRef>>,
    /// Outputs by port.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, Output>,
    /// Metrics by name; all finite.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    /// Comparisons of two models or arms; all numbers finite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<Comparison>,
    /// Attempt that produced the outputs.
    pub provenance: Provenance,
    /// Times, rates, hosts and peak memory of that attempt; not part of any digest.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub measured: BTreeMap<String, Value>,
}

impl Manifest {
    /// Returns a reference to one of the outputs; `None` if there is no output of this name.
    pub fn reference(&self, output: &str) -> Option<ArtifactRef> {
        self.outputs.get(output).map(|o| ArtifactRef {
            stage_digest: self.stage_digest.clone(),
            generation: self.generation,
            output: output.to_string(),
            kind: o.kind,
            digest: o.digest.clone(),
        })
    }
}

/// Rejects metrics and comparisons that are NaN or infinite, before publication. Errors: data, naming the number.
pub fn require_finite(metrics: &BTreeMap<String, f64>, comparisons: &[Comparison]) -> Result<()> {
    let plain = metrics.iter().find(|(_, value)| !value.is_finite()).map(|(name, value)| (name.clone(), *value));
    let of_row =
        |row: &Comparison| row.first_non_finite().map(|(of, value)| (qualified_name(&row.metric, Some(of)), value));
    match plain.or_else(|| comparisons.iter().find_map(of_row)) {
        Some((name, value)) => Err(Error::data(format!("metric `{name}` is {value}, not a finite number"))
            .help("look at the stage's log for the first step that went wrong")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_finite_metrics_are_rejected() {
        assert_eq!(require_finite(&BTreeMap::from([("loss".to_string(), -1e300)]), &[]), Ok(()));
        for bad in [f64::NAN, f64::INFINITY] {
            let error = require_finite(&BTreeMap::from([("loss".to_string(), bad)]), &[]).unwrap_err();
            assert!(error.message.starts_with("metric `loss` is "), "{error}");
            let row = Comparison { low: Some(bad), ..Comparison::of("tokens") };
            let error = require_finite(&BTreeMap::new(), &[row]).unwrap_err();
            assert!(error.message.starts_with("metric `tokens.low` is "), "{error}");
        }
    }

    #[test]
    fn paths_that_leave_their_folder_are_detected() {
        let inside = |p: &str| FileEntry { path: p.into(), digest: Digest::of(b""), size: 0 }.stays_inside();
        assert!(inside("x") && inside("a/b.c") && inside("..x/y..") && inside(r"a\..\b"));
        assert!(!["", ".", "..", "/", "/x", "../x", "a/../../b", "a/.."].into_iter().any(inside));
    }

    #[test]
    fn the_content_digest_depends_on_files_not_on_their_order() {
        let file = |p: &str| FileEntry { path: p.into(), digest: Digest::of(p.as_bytes()), size: 1 };
        let make = |files| Output::new(ArtifactKind::Files, files, None, BTreeMap::new()).unwrap();
        assert_eq!(make(vec![file("a"), file("b")]).digest, make(vec![file("b"), file("a")]).digest);
        assert_ne!(make(vec![file("a")]).digest, make(vec![file("b")]).digest);
    }
}
