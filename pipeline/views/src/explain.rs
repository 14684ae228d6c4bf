//! Explains the state of a stage: the lines of its journal, the origin of a cache hit, and the stages that hold the
//! pools for which it waits.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use trainyard_core::event::GrantSummary;
use trainyard_core::units::format_size;
use trainyard_core::{Manifest, Result, RunId, StageKey};
use trainyard_engine::fold::{RunView, StageStatus, StageView};
use trainyard_engine::pool::IN_PROCESS;
use trainyard_store::Store;

/// Names in one line; further names are counted.
const NAMED: usize = 8;

/// Run and stage that published what a cache hit found.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HitOrigin {
    /// Run that made the outputs.
    pub run: RunId,
    /// Stage of that run.
    pub stage: StageKey,
    /// Generation of the manifest.
    pub generation: u32,
}

impl HitOrigin {
    /// Returns the origin that a manifest names.
    pub(crate) fn of(manifest: &Manifest) -> Self {
        let made = &manifest.provenance;
        Self { run: made.run.clone(), stage: made.stage.clone(), generation: manifest.generation }
    }
}

/// Returns the run and stage that published the outputs of a cache hit; `None` for other stages, and if the manifest
/// was removed. Errors: those of the store.
pub async fn origin(store: &Store, stage: &StageView) -> Result<Option<HitOrigin>> {
    Ok(hit_manifest(store, stage).await?.as_ref().map(HitOrigin::of))
}

/// Returns the manifest that a cache hit found; `None` for other stages, and if the manifest was removed. Errors: those
/// of the store.
pub(crate) async fn hit_manifest(store: &Store, stage: &StageView) -> Result<Option<Manifest>> {
    match stage.digest.as_ref().zip(stage.generation).filter(|_| stage.status == StageStatus::Hit) {
        Some((digest, generation)) => store.manifest_at(digest, generation).await,
        None => Ok(None),
    }
}

/// Returns one line for each pool that other stages of the run hold, as in `pool gpu is held by sft (1 CPU, GPU 0)`.
/// Returns no line unless the stage is queued or waits for a machine.
pub fn holders(view: &RunView, waiting: &StageView) -> Vec<String> {
    if !matches!(waiting.status, StageStatus::Queued | StageStatus::Waiting) {
        return Vec::new();
    }
    let mut held: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for stage in view.stages.iter().filter(|stage| stage.key() != waiting.key()) {
        let open = stage.attempts.last().filter(|a| a.outcome.is_none() && a.pool != IN_PROCESS);
        if let Some(attempt) = open {
            let holders = held.entry(&attempt.pool).or_default();
            holders.push(format!("{} ({})", stage.key(), amounts(&attempt.grant)));
        }
    }
    held.into_iter().map(|(pool, names)| format!("pool {pool} is held by {}", named(&names))).collect()
}

/// Joins the first names, and counts the others: `a, b and 3 more`.
pub fn named(names: &[String]) -> String {
    let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Formats the resources of an attempt: `2 CPUs, 8.0 GiB, GPUs 0 3, on 4 machines`.
pub fn amounts(grant: &GrantSummary) -> String {
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let mut parts = vec![format!("{} CPU{}", grant.cpus, if grant.cpus == 1 { "" } else { "s" })];
    if grant.memory > 0 {
        parts.push(format_size(grant.memory));
    }
    if !grant.gpus.is_empty() {
        let gpus: Vec<String> = grant.gpus.iter().map(u32::to_string).collect();
        parts.push(format!("GPU{} {}", plural(gpus.len()), gpus.join(" ")));
    }
    if grant.machines.len() > 1 {
        parts.push(format!("on {} machines", grant.machines.len()));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::Digest;
    use trainyard_core::event::{Event, EventRecord};

    #[test]
    fn holders_of_a_pool_are_named() {
        let key = |name: &str| StageKey(name.into());
        let mut view = RunView::default();
        let started = |name: &str, gpus: Vec<u32>| Event::AttemptStarted {
            stage: key(name),
            attempt: 1,
            digest: Digest::of(b"d"),
            pool: "gpu".into(),
            grant: GrantSummary { cpus: 2, memory: 8 << 30, gpus, machines: Vec::new() },
        };
        let queued = Event::Queued { stage: key("rl"), why: "1 GPU is missing".into() };
        for event in [started("sft", vec![0]), started("dpo", vec![1, 2]), queued] {
            view.apply(&EventRecord { at: 1, event });
        }
        let waiting = view.stage(&key("rl")).unwrap();
        let line = "pool gpu is held by sft (2 CPUs, 8.0 GiB, GPU 0), dpo (2 CPUs, 8.0 GiB, GPUs 1 2)";
        assert_eq!(holders(&view, waiting), [line]);
        assert!(holders(&view, view.stage(&key("sft")).unwrap()).is_empty(), "it does not wait");
    }

    #[test]
    fn amounts_are_formatted() {
        let machines = (0..4).map(|n| n.to_string()).collect();
        assert_eq!(amounts(&GrantSummary { cpus: 1, ..GrantSummary::default() }), "1 CPU");
        let grant = GrantSummary { cpus: 2, memory: 8 << 30, gpus: vec![0, 3], machines };
        assert_eq!(amounts(&grant), "2 CPUs, 8.0 GiB, GPUs 0 3, on 4 machines");
    }

    #[test]
    fn many_holders_are_counted() {
        let names: Vec<String> = (0..10).map(|n| n.to_string()).collect();
        assert_eq!(named(&names), "0, 1, 2, 3, 4, 5, 6, 7 and 2 more");
    }
}
