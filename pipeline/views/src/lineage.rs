//! Shows the lineage of a stage's artifacts: all stages whose artifacts they were made from.

use crate::artifacts::{InputRow, input};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use trainyard_core::{Manifest, Result, RunId, StageKey};
use trainyard_store::Store;

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

/// Shows a published stage and all its ancestors. Errors: those of the store.
pub async fn of_stage(store: &Store, first: Manifest) -> Result<Lineage> {
    let mut seen = BTreeSet::from([first.stage_digest.clone()]);
    let mut queue: VecDeque<_> = VecDeque::from([(first.stage_digest.clone(), Some(first))]);
    let mut stages = Vec::new();
    while let Some((digest, known)) = queue.pop_front() {
        if stages.len() == MAX_STAGES {
            return Ok(Lineage { stages, truncated: true });
        }
        let manifest = match known {
            Some(manifest) => Some(manifest),
            None => store.manifest(&digest).await?,
        };
        for input in manifest.iter().flat_map(|manifest| manifest.inputs.values().flatten()) {
            if seen.insert(input.stage_digest.clone()) {
                queue.push_back((input.stage_digest.clone(), None));
            }
        }
        stages.push(ancestor(digest.to_string(), manifest.as_ref()));
    }
    Ok(Lineage { stages, truncated: false })
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
