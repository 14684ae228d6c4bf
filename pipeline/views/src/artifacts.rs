//! Lists the artifacts that a run published, and shows the manifest of one output.

use crate::find::{self, ResolvedOutput};
use crate::model::{self, ModelView};
use crate::runs::OutputRow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::artifact::TableSummary;
use trainyard_core::{ArtifactRef, FileEntry, Result, RunId, StageKey};
use trainyard_engine::fold::RunView;
use trainyard_store::Store;

/// Maximum artifacts in one response.
const MAX_ARTIFACTS: usize = 1_000;
/// Maximum files in one response.
const MAX_FILES: usize = 1_000;

/// Selects artifacts.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArtifactListQuery {
    /// Run that published the artifacts or took them from the cache (the latest).
    #[serde(default)]
    pub run: Option<String>,
    /// Index of the first artifact (0).
    #[serde(default)]
    pub from: Option<usize>,
    /// Maximum number of artifacts (100, and never more than 1000).
    #[serde(default)]
    pub limit: Option<usize>,
}

/// Page of a run's artifacts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArtifactList {
    /// Run id.
    pub run: RunId,
    /// Artifacts, in the order of the run's stages.
    pub artifacts: Vec<ArtifactRow>,
    /// Value of `from` for the next page; null on the last one.
    pub next: Option<usize>,
}

/// Artifact, in short.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArtifactRow {
    /// Stage that published the artifact.
    pub stage: StageKey,
    /// Output of the stage.
    pub output: String,
    /// Digest of the stage, used in `/artifacts/{digest}/{output}`.
    pub stage_digest: Option<String>,
    /// Kind, digest, size and number of rows.
    #[serde(flatten)]
    pub about: OutputRow,
}

/// Artifact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArtifactPage {
    /// Digest of the stage.
    pub stage_digest: String,
    /// Number of earlier publications.
    pub generation: u32,
    /// Kind of the stage.
    pub stage_kind: String,
    /// Output of the stage.
    pub output: String,
    /// Kind, digest, size and number of rows.
    #[serde(flatten)]
    pub about: OutputRow,
    /// Complete config of the stage.
    pub config: Value,
    /// Artifacts that the stage read, by input.
    pub inputs: BTreeMap<String, Vec<InputRow>>,
    /// Metrics of the stage.
    pub metrics: BTreeMap<String, f64>,
    /// Run that made the artifact.
    pub run: RunId,
    /// Stage of that run.
    pub stage: StageKey,
    /// Files of the artifact, at most 1000 of them.
    pub files: Vec<FileRow>,
    /// Total number of files.
    pub files_total: usize,
    /// Columns and first rows, if the artifact is a table.
    pub table: Option<TableSummary>,
    /// Shape, parameters, tokenizer and sources, if the artifact is a model.
    pub model: Option<ModelView>,
}

/// Artifact used as an input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InputRow {
    /// Digest of the stage that published the artifact.
    pub stage_digest: String,
    /// Output of that stage.
    pub output: String,
    /// Digest of the content.
    pub digest: String,
}

/// File of an artifact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileRow {
    /// Path in the artifact's folder.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the content.
    pub digest: String,
}

/// Lists the artifacts of a run. Errors: invalid (no such run), those of the store.
pub async fn list(store: &Store, run: &RunId, query: &ArtifactListQuery) -> Result<ArtifactList> {
    let view = find::view(store, run).await?;
    Ok(page_of(run, &view, query))
}

fn page_of(run: &RunId, view: &RunView, query: &ArtifactListQuery) -> ArtifactList {
    let (from, limit) = (query.from.unwrap_or(0), query.limit.unwrap_or(100).clamp(1, MAX_ARTIFACTS));
    let all =
        view.stages.iter().flat_map(|stage| stage.outputs.iter().map(move |(port, summary)| (stage, port, summary)));
    let mut rows: Vec<ArtifactRow> = all
        .skip(from)
        .take(limit + 1)
        .map(|(stage, port, summary)| ArtifactRow {
            stage: stage.key().clone(),
            output: port.clone(),
            stage_digest: stage.digest.as_ref().map(ToString::to_string),
            about: OutputRow::of_summary(summary),
        })
        .collect();
    let next = (rows.len() > limit).then_some(from + limit);
    rows.truncate(limit);
    ArtifactList { run: run.clone(), artifacts: rows, next }
}

/// Shows an artifact, from its manifest; of a model also what its small files and headers say. Errors: those of the
/// store.
pub async fn show(store: &Store, found: &ResolvedOutput) -> Result<ArtifactPage> {
    let model = model::show(store, found).await?;
    let (manifest, output) = (&found.manifest, found.output());
    let inputs = manifest.inputs.iter().map(|(name, inputs)| (name.clone(), inputs.iter().map(input).collect()));
    Ok(ArtifactPage {
        stage_digest: manifest.stage_digest.to_string(),
        generation: manifest.generation,
        stage_kind: manifest.kind.clone(),
        about: OutputRow {
            kind: output.kind.to_string(),
            digest: output.digest.to_string(),
            bytes: output.files.iter().map(|file| file.size).sum(),
            rows: output.table.as_ref().map(|table| table.rows),
        },
        config: manifest.config.clone(),
        inputs: inputs.collect(),
        metrics: manifest.metrics.clone(),
        run: manifest.provenance.run.clone(),
        stage: manifest.provenance.stage.clone(),
        files: output.files.iter().take(MAX_FILES).map(file).collect(),
        files_total: output.files.len(),
        table: output.table.clone(),
        output: found.port.clone(),
        model,
    })
}

/// Converts a file for responses.
pub fn file(file: &FileEntry) -> FileRow {
    FileRow { path: file.path.clone(), bytes: file.size, digest: file.digest.to_string() }
}

/// Converts a reference to an artifact for responses.
pub fn input(input: &ArtifactRef) -> InputRow {
    InputRow {
        stage_digest: input.stage_digest.to_string(),
        output: input.output.clone(),
        digest: input.digest.to_string(),
    }
}
