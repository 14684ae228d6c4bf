//! Defines the nodes of a lineage.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::Manifest;

/// Why a node is among the sources of another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// The requested row.
    Row,
    /// The same row in the input that it was kept from.
    Kept,
    /// A row that it was made from.
    Parent,
    /// The problem that it answers.
    Problem,
    /// The rollout that it judges.
    Rollout,
    /// The rollout that it was forked from.
    Fork,
    /// The model that made it, or that this model was made from.
    Model,
    /// The place in a file that it was read from.
    Source,
}

/// Input of the stage that made a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CountedInput {
    /// Name of the input.
    pub input: String,
    /// Artifact, as `RUN/STAGE/OUTPUT`.
    pub artifact: String,
    /// Digest of the stage, used in `/artifacts/{digest}/{output}`.
    pub stage_digest: String,
    /// Kind of the artifact.
    pub kind: String,
    /// Number of rows of a table.
    pub rows: Option<u64>,
}

/// A row, model or place in a file, with its own sources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LineageNode {
    /// Relation to the node that it is a source of.
    pub relation: Relation,
    /// Artifact of the row or model, as `RUN/STAGE/OUTPUT`; null for a place in a file, and for what was not found.
    pub artifact: Option<String>,
    /// Digest of the stage, used in `/artifacts/{digest}/{output}`; null without an artifact.
    pub stage_digest: Option<String>,
    /// Kind of the stage that made the artifact.
    pub stage_kind: Option<String>,
    /// Number of the row, from 0.
    pub row: Option<u64>,
    /// Id of the row, the place in a file, or the digest of a model that was not found.
    pub id: Option<String>,
    /// Beginning of the row's question or answer.
    pub text: Option<String>,
    /// Inputs of the stage that made a model.
    pub inputs: Vec<CountedInput>,
    /// Rows, models and files that the node was made from.
    pub sources: Vec<Self>,
    /// Reason why the walk ends at this node, or what it did not find.
    pub note: Option<String>,
}

impl LineageNode {
    /// Creates the node of an output, or of a row of it, without sources.
    pub(super) fn of_output(relation: Relation, manifest: &Manifest, port: &str) -> Self {
        Self {
            artifact: Some(artifact_name(manifest, port)),
            stage_digest: Some(manifest.stage_digest.to_string()),
            stage_kind: Some(manifest.kind.clone()),
            id: None,
            ..Self::without_artifact(relation, "")
        }
    }
    /// Creates the node of a place in a file, or of a row or model that was not found.
    pub(super) fn without_artifact(relation: Relation, id: &str) -> Self {
        Self {
            relation,
            artifact: None,
            stage_digest: None,
            stage_kind: None,
            row: None,
            id: Some(id.to_string()),
            text: None,
            inputs: Vec::new(),
            sources: Vec::new(),
            note: None,
        }
    }
    /// Sets the note.
    pub(super) fn with_note(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()), ..self }
    }
}

/// Returns the name of an output, by the run that made it.
pub(crate) fn artifact_name(manifest: &Manifest, port: &str) -> String {
    format!("{}/{}/{port}", manifest.provenance.run, manifest.provenance.stage)
}
