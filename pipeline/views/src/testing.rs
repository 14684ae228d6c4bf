//! Provides events of handwritten journals, and their views, for this crate's tests.

use std::collections::BTreeMap;
use trainyard_core::event::{Event, EventRecord, GrantSummary, PlannedStage, Selection};
use trainyard_core::{Digest, StageKey};
use trainyard_engine::fold::RunView;

/// Returns the key of a stage.
pub fn key(name: &str) -> StageKey {
    StageKey(name.into())
}

/// Returns the event of a new run of these stages, each with the stages that it needs.
pub fn created(stages: &[(&str, &[&str])]) -> Event {
    let planned = |(name, after): &(&str, &[&str])| PlannedStage {
        stage: key(name),
        kind: "noop".into(),
        main_metric: None,
        after: after.iter().map(|name| key(name)).collect(),
    };
    Event::RunCreated {
        format: 1,
        workflow: "w".into(),
        source: "w.yaml".into(),
        plan_digest: Digest::of(b"plan"),
        params: BTreeMap::new(),
        selection: Selection::default(),
        stages: stages.iter().map(planned).collect(),
    }
}

/// Returns the event of the start of an attempt.
pub fn started(stage: &str, attempt: u32, pool: &str) -> Event {
    let (stage, digest, grant) = (key(stage), Digest::of(b"d"), GrantSummary::default());
    Event::AttemptStarted { stage, attempt, digest, pool: pool.into(), grant }
}

/// Returns the event of a stage that was taken from the cache.
pub fn hit(stage: &str, digest: &[u8]) -> Event {
    Event::CacheHit {
        stage: key(stage),
        digest: Digest::of(digest),
        generation: 0,
        metrics: BTreeMap::new(),
        comparisons: Vec::new(),
        outputs: BTreeMap::new(),
    }
}

/// Returns the view of a run with these events, each with its time.
pub fn fold(events: impl IntoIterator<Item = (i64, Event)>) -> RunView {
    let mut view = RunView::default();
    for (at, event) in events {
        view.apply(&EventRecord { at, event });
    }
    view
}
