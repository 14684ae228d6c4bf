//! Reads one learning curve of several instances. Of an instance that was taken from the cache, the curve of the run
//! that made it.

use crate::curves::of_stage;
use crate::find;
use futures::StreamExt as _;
use trainyard_core::{Result, RunId, StageKey};
use trainyard_runtime::curves as stored;
use trainyard_store::Store;

/// Maximum instances.
const MAX_INSTANCES: usize = 16;
/// Curves read concurrently.
const AT_ONCE: usize = 4;

/// Learning curve of several instances.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SweepCurves {
    /// Names of all curves of the first instance that has any.
    pub names: Vec<String>,
    /// Name of the shown curve.
    pub name: Option<String>,
    /// Curves of the instances that have it.
    pub curves: Vec<InstanceCurve>,
}

/// Curve of one instance.
#[derive(Debug, Clone, PartialEq)]
pub struct InstanceCurve {
    /// Key of the instance.
    pub stage: String,
    /// Step and value, by rising step.
    pub points: Vec<(u64, f64)>,
}

/// Reads the curve called `name` of the first 16 of these stages; instances without it are left out. By
/// default it is that of the main metric, or the first by name. Errors: those of the store.
pub async fn curves(store: &Store, run: &RunId, stages: &[String], name: Option<&str>) -> Result<SweepCurves> {
    let view = find::view(store, run).await?;
    let (view, chosen) = (&view, stages.iter().take(MAX_INSTANCES).cloned().map(StageKey).collect::<Vec<_>>());
    let reads = futures::stream::iter(chosen).map(|key| async move {
        let Some(stage) = view.stage(&key) else { return Ok((key, stored::StageCurves::new())) };
        let found = of_stage(store, run, stage).await?;
        Ok((key, found.curves))
    });
    let read: Vec<Result<(StageKey, stored::StageCurves)>> = reads.buffered(AT_ONCE).collect().await;
    let read = read.into_iter().collect::<Result<Vec<_>>>()?;
    let names = read.iter().find(|(_, curves)| !curves.is_empty());
    let names: Vec<String> = names.map(|(_, curves)| curves.keys().cloned().collect()).unwrap_or_default();
    let main = read.first().and_then(|(key, _)| view.stage(key)?.main_metric.clone());
    let main = main.filter(|main| names.contains(main));
    let Some(name) = name.map(str::to_string).or(main).or(names.first().cloned()) else {
        return Ok(SweepCurves { names, ..SweepCurves::default() });
    };
    let curve = |(key, curves): (StageKey, stored::StageCurves)| {
        let points = curves.get(&name)?.iter().map(|(step, value)| (*step, *value)).collect();
        Some(InstanceCurve { stage: key.0, points })
    };
    let curves = read.into_iter().filter_map(curve).collect();
    Ok(SweepCurves { names, name: Some(name), curves })
}
