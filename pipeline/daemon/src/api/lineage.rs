//! Shows the lineage of a stage's artifacts: all stages whose artifacts they were made from.

use super::artifacts::{InputRow, input, manifest};
use super::error::ApiResult;
use super::state::ApiState;
use axum::Json;
use axum::extract::{Path, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use trainyard_core::{Manifest, RunId, StageKey};

/// Maximum stages in one response.
const MAX_STAGES: usize = 200;

/// Stage with all its ancestors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lineage {
    /// Stages in breadth-first order: the requested stage, its inputs, and so on.
    pub stages: Vec<Ancestor>,
    /// Whether there are more than 200 stages.
    pub truncated: bool,
}

/// Published stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ancestor {
    /// Stage digest.
    pub stage_digest: String,
    /// Stage kind; null if the manifest is no longer in the store.
    pub kind: Option<String>,
    /// Run that made the outputs.
    pub run: Option<RunId>,
    /// Stage of that run.
    pub stage: Option<StageKey>,
    /// Inputs of the stage.
    pub inputs: Vec<InputRow>,
}

pub async fn show(State(app): State<Arc<ApiState>>, Path(digest): Path<String>) -> ApiResult<Lineage> {
    let first = manifest(&app, &digest).await?;
    let mut seen = BTreeSet::from([first.stage_digest.clone()]);
    let mut queue: VecDeque<_> = VecDeque::from([(first.stage_digest.clone(), Some(first))]);
    let mut stages = Vec::new();
    while let Some((digest, known)) = queue.pop_front() {
        if stages.len() == MAX_STAGES {
            return Ok(Json(Lineage { stages, truncated: true }));
        }
        let manifest = match known {
            Some(manifest) => Some(manifest),
            None => app.store.manifest(&digest).await?,
        };
        for input in manifest.iter().flat_map(|manifest| manifest.inputs.values().flatten()) {
            if seen.insert(input.stage_digest.clone()) {
                queue.push_back((input.stage_digest.clone(), None));
            }
        }
        stages.push(ancestor(digest.to_string(), manifest.as_ref()));
    }
    Ok(Json(Lineage { stages, truncated: false }))
}

fn ancestor(stage_digest: String, manifest: Option<&Manifest>) -> Ancestor {
    let inputs = manifest.iter().flat_map(|manifest| manifest.inputs.values().flatten()).map(input).collect();
    Ancestor {
        stage_digest,
        kind: manifest.map(|manifest| manifest.kind.clone()),
        run: manifest.map(|manifest| manifest.provenance.run.clone()),
        stage: manifest.map(|manifest| manifest.provenance.stage.clone()),
        inputs,
    }
}
