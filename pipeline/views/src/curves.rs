//! Shows the learning curves of a stage.

use crate::explain::{HitOrigin, hit_manifest};
use crate::stream_page::{StreamQuery, read};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::{AttemptNumber, Result, RunId};
use trainyard_engine::fold::StageView;
use trainyard_runtime::curves::{self, StageCurves};
use trainyard_store::{AttemptStream, Store};

/// Page of an attempt's learning curves.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CurvePage {
    /// Attempt number; 0 if the stage has no attempt.
    pub attempt: AttemptNumber,
    /// Points in the order of reporting.
    pub points: Vec<CurvePoint>,
    /// Value of `from` for the next page. A running attempt may report more.
    pub next: u32,
    /// Whether more points are available already.
    pub more: bool,
}

/// Point of a learning curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CurvePoint {
    /// Metric name.
    pub name: String,
    /// Step, from 1.
    pub step: u64,
    /// Value of the metric.
    pub value: f64,
}

/// Complete learning curves of a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredCurves {
    /// Run and stage that reported the curves, if the stage was taken from the cache.
    pub origin: Option<HitOrigin>,
    /// Curves by name; empty if none are in the store.
    pub curves: StageCurves,
}

/// Reads the curves of a stage over all its attempts. Of a stage that was taken from the cache, reads those of the run
/// that made it. Errors: those of the store.
pub async fn of_stage(store: &Store, run: &RunId, stage: &StageView) -> Result<StoredCurves> {
    if let Some(manifest) = hit_manifest(store, stage).await? {
        let made = &manifest.provenance;
        let attempts: Vec<_> = (1..=made.attempt).collect();
        let curves = curves::of_stage(store, &made.run, &made.stage, &attempts).await?;
        return Ok(StoredCurves { origin: Some(HitOrigin::of(&manifest)), curves });
    }
    let attempts: Vec<_> = stage.attempts.iter().map(|attempt| attempt.number).collect();
    let curves = curves::of_stage(store, run, stage.key(), &attempts).await?;
    Ok(StoredCurves { origin: None, curves })
}

/// Shows a page of a stage's learning curves. Errors: invalid (no such run or stage), those of the store.
pub async fn show(store: &Store, run: &RunId, query: &StreamQuery) -> Result<CurvePage> {
    let page = read(store, run, query, AttemptStream::Metrics).await?;
    let point = |(name, step, value)| CurvePoint { name, step, value };
    let points = curves::points(&page.bytes).into_iter().map(point).collect();
    Ok(CurvePage { attempt: page.attempt, points, next: page.next, more: page.more })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fold, hit};
    use serde_json::json;
    use std::collections::BTreeMap;
    use trainyard_core::attempt::AttemptMessage;
    use trainyard_core::{Digest, Manifest, StageKey};
    use trainyard_store::StoreOptions;

    #[tokio::test]
    async fn curves_of_a_hit_are_those_of_the_run_that_made_it() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let (first, second) = (RunId("20261121-000000-000000".into()), RunId("20261122-000000-000000".into()));
        let made = StageKey("sft[seed=1]".into());
        let manifest: Manifest = serde_json::from_value(json!({
            "format": 1, "stage_digest": Digest::of(b"sft"), "generation": 0, "kind": "sft", "kind_version": 1,
            "config": {}, "inputs": {},
            "provenance": {"workflow": "w", "run": first, "stage": made, "attempt": 2},
        }))
        .unwrap();
        store.publish(&manifest).await.unwrap();
        for (attempt, step, value) in [(1, 1, 3.0), (2, 2, 2.0)] {
            let point = AttemptMessage::Metric { name: "loss".into(), step, value };
            let line = serde_json::to_string(&point).unwrap() + "\n";
            store.put_chunk(&first, &made, attempt, AttemptStream::Metrics, 0, line.into()).await.unwrap();
        }
        let view = |digest: &[u8]| fold([(1, hit("sft", digest))]);
        let found = of_stage(&store, &second, &view(b"sft").stages[0]).await.unwrap();
        let loss = BTreeMap::from([(1, 3.0), (2, 2.0)]);
        assert_eq!(found.curves, BTreeMap::from([("loss".to_string(), loss)]));
        assert_eq!(found.origin, Some(HitOrigin { run: first, stage: made, generation: 0 }));
        let removed = of_stage(&store, &second, &view(b"gone").stages[0]).await.unwrap();
        assert_eq!(removed, StoredCurves { origin: None, curves: StageCurves::new() });
    }
}
