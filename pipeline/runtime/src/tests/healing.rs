//! Tests unreadable manifests: their stages publish again, and a forecast continues.

use super::{FakeBehavior, SUCCEEDED, Watcher, context, fake, key, node, options, plan};
use crate::{RunOptions, forecast, run};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use trainyard_core::Digest;
use trainyard_core::artifact::GenerationReason;
use trainyard_core::event::Selection;
use trainyard_engine::fold::StageStatus;
use trainyard_engine::forecast::ForecastDecision;
use trainyard_spec::template::Template;
use trainyard_store::{Store, StoreOptions, layout};

async fn folder_store(folder: &Path) -> Store {
    Store::open(folder.to_str().unwrap(), StoreOptions::default()).await.unwrap()
}

/// Truncates a manifest, as a power loss may.
fn empty(folder: &Path, stage: &Digest, generation: u32) {
    let manifest = folder.join(layout::manifest(stage, generation));
    assert!(manifest.exists());
    std::fs::write(manifest, "").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn empty_manifest_starts_the_next_generation() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder_store(folder.path()).await;
    let plan = plan(vec![node("a", &[]), node("b", &["a"])]);
    let context = context(&store, fake(|_| FakeBehavior::Succeed), &Arc::new(Watcher::default()));
    let first = run(options(), plan.clone(), context.clone()).await.unwrap();
    let stage = first.view.stage(&key("a")).unwrap().digest.clone().unwrap();
    let cases = [(Vec::new(), GenerationReason::Lost), (vec!["a".to_string()], GenerationReason::Rerun)];
    for (rerun, reason) in cases {
        let before = store.manifest(&stage).await.unwrap().unwrap().generation;
        empty(folder.path(), &stage, before);
        let options = RunOptions { selection: Selection { rerun, ..Selection::default() }, ..options() };
        let decisions: Vec<ForecastDecision> =
            forecast(&options, &plan, &context).await.unwrap().iter().map(|f| f.decision).collect();
        assert_eq!(decisions, [ForecastDecision::Run, ForecastDecision::Deferred]);
        let again = run(options, plan.clone(), context.clone()).await.unwrap();
        let status = |name: &str| again.view.stage(&key(name)).unwrap().status;
        assert_eq!((&again.ending, status("a"), status("b")), (&SUCCEEDED, StageStatus::Done, StageStatus::Hit));
        let manifest = store.manifest(&stage).await.unwrap().unwrap();
        assert_eq!((manifest.generation, manifest.reason), (before + 1, Some(reason)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forecast_works_without_the_previous_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder_store(folder.path()).await;
    let mut plan = plan(vec![node("a", &[])]);
    let context = context(&store, fake(|_| FakeBehavior::Succeed), &Arc::new(Watcher::default()));
    let first = run(options(), plan.clone(), context.clone()).await.unwrap();
    empty(folder.path(), first.view.stage(&key("a")).unwrap().digest.as_ref().unwrap(), 0);
    plan.nodes[0].config = Template::Literal(json!({"name": "changed"}));
    let forecasts = forecast(&options(), &plan, &context).await.unwrap();
    assert_eq!(forecasts[0].decision, ForecastDecision::Run);
}
