//! Tests plans of many stages: no step takes quadratic time, and ended stages use little memory.

use super::simulation::Simulation;
use super::{Build, node, plan, setup};
use crate::fold::StageStatus;
use crate::{Command, Input, LookupResult, NodeId, RunEngine};
use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Arc;
use trainyard_core::attempt::AttemptResult;
use trainyard_core::event::RunOutcome;
use trainyard_core::{Error, Placement};
use trainyard_spec::plan::PlanNode;

fn inside(name: &str) -> PlanNode {
    PlanNode { placement: Placement::InProcess, ..node(name) }
}

#[test]
fn cancelled_in_process_queue_starts_nothing() {
    let names: Vec<String> = (0..600).map(|i| format!("n{i}")).collect();
    let mut sim = Simulation::new(&plan(names.iter().map(|name| inside(name)).collect()), setup());
    sim.feed(Input::Begin);
    for _ in &names {
        sim.carry_out(0);
    }
    assert_eq!(sim.launched.len(), 256, "the others wait for a place");
    sim.feed(Input::Cancel { why: "Ctrl-C".into() });
    assert_eq!(sim.finish(), RunOutcome::Cancelled);
    assert_eq!(sim.launched.len(), 256);
    assert!(sim.view().stages.iter().all(|stage| stage.status == StageStatus::Cancelled));
}

#[test]
fn in_process_stages_in_progress_are_bounded() {
    let names: Vec<String> = (0..5_000).map(|i| format!("n{i}")).collect();
    let plan = plan(names.iter().map(|name| inside(name)).collect());
    let mut engine = RunEngine::new(&plan, setup()).unwrap();
    let mut lookups: VecDeque<NodeId> = VecDeque::new();
    let (mut max, mut responses) = (0, 0);
    let mut step = engine.step(0, Input::Begin);
    loop {
        lookups.extend(step.commands.iter().filter_map(|command| match command {
            Command::Lookup { node, .. } => Some(*node),
            _ => None,
        }));
        max = max.max(lookups.len());
        assert!(engine.states.iter().filter(|state| state.spec.is_some()).count() <= 2_048);
        let Some(node) = lookups.pop_front() else { break };
        responses += 1;
        // One node fails, so that a slot is also freed by a failure.
        let answer = if responses == 9 { Err(Error::invalid("403")) } else { Ok(hit(&engine, node)) };
        step = engine.step(0, Input::LookedUp { node, answer });
    }
    assert_eq!((max, responses, engine.in_process_count()), (2_048, 5_000, 0));
    assert!(engine.is_finished());
}

/// Returns the store's state of a node's digest.
fn hit(engine: &RunEngine, node: NodeId) -> LookupResult {
    let spec = engine.state(node).spec.clone().unwrap();
    let result = AttemptResult {
        format: 1,
        run: spec.run.clone(),
        stage: spec.stage.clone(),
        attempt: 1,
        stage_digest: spec.stage_digest.clone(),
        outputs: Default::default(),
        metrics: Default::default(),
        comparisons: Vec::new(),
        measured: Default::default(),
    };
    LookupResult::Hit(Arc::new(spec.manifest(result, 0, None)))
}

#[test]
fn ended_stage_drops_config_and_inputs() {
    let plan = plan(vec![node("a"), node("b").reads(&["a"])]);
    let mut store = Default::default();
    for round in ["published", "hit"] {
        let mut sim = Simulation { store, ..Simulation::new(&plan, setup()) };
        assert_eq!((sim.finish(), sim.launched.is_empty()), (RunOutcome::Succeeded, round == "hit"));
        for state in &sim.engine.states {
            assert!(state.spec.is_none() && state.digest.is_some(), "{}", state.key);
            let manifest = state.manifest.as_ref().unwrap();
            assert_eq!((&manifest.config, manifest.inputs.len()), (&Value::Null, 0), "{}", state.key);
            assert!(manifest.outputs.contains_key("out") && manifest.metrics.contains_key("accuracy"));
        }
        assert!(sim.store.values().all(|manifest| !manifest.config.is_null()), "what is stored is whole");
        store = sim.store;
    }
}
