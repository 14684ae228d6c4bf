//! Shows one stage of a run: its config and inputs, the reasons for its state, and its metrics.

use crate::artifacts::{InputRow, input};
use crate::explain::{HitOrigin, holders, origin};
use crate::followed::attempts_with_streams;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::{Manifest, Result, RunId};
use trainyard_engine::fold::{RunView, StageView};
use trainyard_store::Store;

/// Details of a stage that the journal does not have, and the reasons for its state.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct StageDetails {
    /// Complete config with defaults filled in; `None` before the first attempt.
    pub config: Option<Value>,
    /// Version of the kind that filled in the defaults; `None` before the first attempt.
    pub kind_version: Option<u32>,
    /// Artifacts that the stage read, by input.
    pub inputs: BTreeMap<String, Vec<InputRow>>,
    /// Reasons for the state of the stage, in lines.
    pub explanation: Vec<String>,
    /// Pools for which the stage waits, with their holders.
    pub holders: Vec<String>,
    /// Origin of a cache hit.
    pub origin: Option<HitOrigin>,
}

/// Shows a stage: from its manifest, or else from the specification of its last attempt. Errors: those of the store.
pub async fn details(store: &Store, run: &RunId, view: &RunView, stage: &StageView) -> Result<StageDetails> {
    let mut details = StageDetails {
        explanation: view.explain(stage.key()),
        holders: holders(view, stage),
        origin: origin(store, stage).await?,
        ..StageDetails::default()
    };
    if let Some(manifest) = manifest(store, stage).await? {
        let inputs = manifest.inputs.iter().map(|(name, list)| (name.clone(), list.iter().map(input).collect()));
        details.inputs = inputs.collect();
        (details.config, details.kind_version) = (Some(manifest.config), Some(manifest.kind_version));
    } else if let Some(attempt) = attempts_with_streams(stage).last()
        && let Some(spec) = store.spec(run, stage.key(), *attempt).await?
    {
        let row = |input: &trainyard_core::attempt::AttemptInput| InputRow {
            stage_digest: input.stage_digest.to_string(),
            output: input.output_name.clone(),
            digest: input.output.digest.to_string(),
        };
        let inputs = spec.inputs.iter().map(|(name, list)| (name.clone(), list.iter().map(row).collect()));
        details.inputs = inputs.collect();
        (details.config, details.kind_version) = (Some(spec.config), Some(spec.kind_version));
    }
    Ok(details)
}

async fn manifest(store: &Store, stage: &StageView) -> Result<Option<Manifest>> {
    match stage.digest.as_ref().zip(stage.generation) {
        Some((digest, generation)) => store.manifest_at(digest, generation).await,
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fold, hit};
    use serde_json::json;
    use trainyard_core::event::{Event, GrantSummary};
    use trainyard_core::{Digest, StageKey};
    use trainyard_store::StoreOptions;

    fn view(events: Vec<Event>) -> RunView {
        fold(events.into_iter().map(|event| (1, event)))
    }

    #[tokio::test]
    async fn hits_show_the_config_and_the_origin_of_their_manifest() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let manifest: Manifest = serde_json::from_value(json!({
            "format": 1, "stage_digest": Digest::of(b"sft"), "generation": 0, "kind": "sft", "kind_version": 1,
            "config": {"lr": 0.1},
            "inputs": {"data": [{"stage_digest": Digest::of(b"data"), "generation": 0, "output": "rows",
                "kind": "table", "digest": Digest::of(b"content")}]},
            "provenance": {"workflow": "w", "run": "first", "stage": "sft[seed=1]", "attempt": 1},
        }))
        .unwrap();
        store.publish(&manifest).await.unwrap();
        let run = RunId("second".into());
        let of = async |view: RunView| details(&store, &run, &view, &view.stages[0]).await.unwrap();
        let found = of(view(vec![hit("sft", b"sft")])).await;
        assert_eq!((found.config, found.kind_version), (Some(json!({"lr": 0.1})), Some(1)));
        assert_eq!((found.inputs["data"].len(), found.inputs["data"][0].output.as_str()), (1, "rows"));
        let origin = found.origin.unwrap();
        assert_eq!((origin.run.0.as_str(), origin.stage.0.as_str()), ("first", "sft[seed=1]"));
        let removed = of(view(vec![hit("sft", b"gone")])).await;
        assert_eq!((removed.config, removed.origin), (None, None));
        assert_eq!(removed.explanation[0], "sft is hit");
    }

    #[tokio::test]
    async fn running_stages_show_the_config_of_their_attempt() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let run = RunId("20261121-000000-000000".into());
        let spec = serde_json::from_value(json!({
            "format": 1, "workflow": "w", "run": run, "stage": "rl", "attempt": 1, "stage_digest": Digest::of(b"rl"),
            "kind": "rl", "kind_version": 1, "config": {"steps": 9}, "inputs": {}, "outputs": {},
            "resources": trainyard_core::attempt::AttemptResources::default(),
            "secrets": {"TOKEN": "env:TOKEN"},
        }))
        .unwrap();
        store.put_spec(&spec).await.unwrap();
        let started = |pool: &str| Event::AttemptStarted {
            stage: StageKey("rl".into()),
            attempt: 1,
            digest: Digest::of(b"rl"),
            pool: pool.into(),
            grant: GrantSummary::default(),
        };
        let running = view(vec![started("gpu")]);
        let found = details(&store, &run, &running, &running.stages[0]).await.unwrap();
        assert_eq!((found.config, found.origin), (Some(json!({"steps": 9})), None));
    }
}
