//! Walks from a model to the models that it was made from, with the inputs of each, by manifests.

use crate::row_lineage::artifact_name;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use trainyard_core::{ArtifactKind, ArtifactRef, Digest, ErrorKind, Manifest, Output, Result};
use trainyard_store::Store;

/// Maximum models in a view.
const MAX_MODELS: usize = 50;

/// A model and what its stage read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelStep {
    /// Model, as `RUN/STAGE/OUTPUT`.
    pub artifact: String,
    /// Digest of its content.
    pub digest: String,
    /// Kind of the stage that made it.
    pub stage_kind: String,
    /// Digest of that stage.
    pub stage_digest: String,
    /// Artifacts that the stage read.
    pub inputs: Vec<StepInput>,
}

/// Artifact that the stage of a model read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StepInput {
    /// Name of the input.
    pub input: String,
    /// Artifact, as `RUN/STAGE/OUTPUT`, or `DIGEST/OUTPUT` if its manifest is no longer in the store.
    pub artifact: String,
    /// Kind of the artifact.
    pub kind: String,
    /// Digest of its content.
    pub digest: String,
    /// Number of rows of a table.
    pub rows: Option<u64>,
    /// Whether the manifest of its stage is in the store.
    pub is_stored: bool,
}

/// The models that a model was made from.
pub struct Ancestry {
    /// The model, the models among the inputs of its stage, and so on.
    pub steps: Vec<ModelStep>,
    /// Whether there are more than 50 models.
    pub truncated: bool,
    /// Outputs of the models in `steps`.
    pub outputs: Vec<Output>,
}

/// Walks from an output that is a model. Errors: those of the store.
pub async fn ancestry(store: &Store, manifest: &Manifest, port: &str) -> Result<Ancestry> {
    let mut found = Ancestry { steps: Vec::new(), truncated: false, outputs: Vec::new() };
    let mut seen: BTreeSet<(Digest, u32, String)> = BTreeSet::new();
    let mut queue = VecDeque::from([(manifest.clone(), port.to_string())]);
    while let Some((manifest, port)) = queue.pop_front() {
        let Some(output) = manifest.outputs.get(&port) else { continue };
        if found.steps.len() == MAX_MODELS {
            found.truncated = true;
            break;
        }
        let read = manifest.inputs.iter().flat_map(|(name, list)| list.iter().map(move |input| (name, input)));
        let read: Vec<(&String, &ArtifactRef)> = read.collect();
        let mut inputs = Vec::new();
        for (name, input) in read {
            let made = stored(store, input).await?;
            inputs.push(step_input(name, input, made.as_ref()));
            let key = (input.stage_digest.clone(), input.generation, input.output.clone());
            if let Some(made) = made.filter(|_| input.kind == ArtifactKind::Model && seen.insert(key)) {
                queue.push_back((made, input.output.clone()));
            }
        }
        found.steps.push(ModelStep {
            artifact: artifact_name(&manifest, &port),
            digest: output.digest.to_string(),
            stage_kind: manifest.kind.clone(),
            stage_digest: manifest.stage_digest.to_string(),
            inputs,
        });
        found.outputs.push(output.clone());
    }
    Ok(found)
}

/// Returns the manifest of an input; `None` if it is damaged or no longer in the store.
async fn stored(store: &Store, input: &ArtifactRef) -> Result<Option<Manifest>> {
    match store.manifest_at(&input.stage_digest, input.generation).await {
        Err(error) if error.kind == ErrorKind::Data => Ok(None),
        found => found,
    }
}

fn step_input(name: &str, input: &ArtifactRef, made: Option<&Manifest>) -> StepInput {
    let output = made.and_then(|made| made.outputs.get(&input.output));
    StepInput {
        input: name.to_string(),
        artifact: made.map_or_else(
            || format!("{}/{}", input.stage_digest.short(), input.output),
            |made| artifact_name(made, &input.output),
        ),
        kind: input.kind.to_string(),
        digest: input.digest.to_string(),
        rows: output.and_then(|output| output.table.as_ref()).map(|table| table.rows),
        is_stored: made.is_some(),
    }
}
