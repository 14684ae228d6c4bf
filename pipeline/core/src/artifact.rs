//! What a stage leaves behind: outputs made of immutable files, and the manifest that publishes them (`docs/design/0004`).
//!
//! Refuses: anything measured or ambient inside an output; times, rates and hosts stand in [`Manifest::measured`].

use crate::digest::Digest;
use crate::error::Result;
use crate::ids::{AttemptNumber, RunId, StageKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// The six kinds of artifact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArtifactKind {
    /// What to solve (Parquet).
    Problems,
    /// What happened: rollout records with verdicts and labels (Parquet).
    Trajectories,
    /// A Hugging Face folder.
    Model,
    /// Metrics with confidence intervals, tables, plots.
    Report,
    /// Any other rows (Parquet).
    Table,
    /// A folder, as is.
    Files,
}

impl ArtifactKind {
    pub const ALL: [Self; 6] =
        [Self::Problems, Self::Trajectories, Self::Model, Self::Report, Self::Table, Self::Files];
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
    /// Relative path with `/`, never `..`.
    pub path: String,
    pub digest: Digest,
    /// Bytes.
    pub size: u64,
}

/// Statistics of one column, enough to inspect a table without downloading it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ColumnStats {
    pub name: String,
    /// The Arrow type, as Arrow prints it.
    pub r#type: String,
    pub nulls: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
}

/// What is known of a Parquet output without reading it again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TableSummary {
    pub rows: u64,
    pub columns: Vec<ColumnStats>,
    /// At most 100 rows and 256 KiB, as JSON objects; long cells are cut with `…`.
    pub preview: Vec<Value>,
}

/// One output port's content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Output {
    pub kind: ArtifactKind,
    /// Content digest: over kind and files only, so equal bytes are equal artifacts whoever made them.
    pub digest: Digest,
    /// Sorted by path.
    pub files: Vec<FileEntry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<TableSummary>,
    /// Facts that downstream stages and `check` read: tokenizer digest, role of an evaluation set, …
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Value>,
}

impl Output {
    /// Builds an output and computes its content digest; files are sorted by path.
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
    /// Sum of the file sizes in bytes.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|f| f.size).sum()
    }
}

/// A published output, named by the manifest that published it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct ArtifactRef {
    pub stage_digest: Digest,
    pub generation: u32,
    /// Output port name.
    pub output: String,
    pub kind: ArtifactKind,
    /// Content digest of the output.
    pub digest: Digest,
}

/// Why a manifest of generation above 0 was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum GenerationReason {
    /// An object of the generation before is missing or corrupt.
    Lost,
    /// The user asked for it (`--rerun`).
    Rerun,
    /// The stage says `cache: false`.
    Uncached,
}

/// Who made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Provenance {
    pub workflow: String,
    pub run: RunId,
    pub stage: StageKey,
    pub attempt: AttemptNumber,
}

/// The published record of a stage: putting it IS the publication.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// 1.
    pub format: u32,
    pub stage_digest: Digest,
    pub generation: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<GenerationReason>,
    pub kind: String,
    pub kind_version: u32,
    /// The complete config, defaults filled.
    pub config: Value,
    /// Port → what was read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, Vec<ArtifactRef>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outputs: BTreeMap<String, Output>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparisons: Vec<crate::metric::Comparison>,
    pub provenance: Provenance,
    /// Times, rates, hosts, peak memory: facts of this attempt that no digest sees.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub measured: BTreeMap<String, Value>,
}

impl Manifest {
    /// The reference to one of this manifest's outputs.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_digest_depends_on_files_not_on_their_order() {
        let file = |p: &str| FileEntry { path: p.into(), digest: Digest::of(p.as_bytes()), size: 1 };
        let make = |files| Output::new(ArtifactKind::Files, files, None, BTreeMap::new()).unwrap();
        assert_eq!(make(vec![file("a"), file("b")]).digest, make(vec![file("b"), file("a")]).digest);
        assert_ne!(make(vec![file("a")]).digest, make(vec![file("b")]).digest);
    }
}
