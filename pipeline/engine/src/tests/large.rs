//! Plans of many stages: no step costs their square, and what ended holds little.

use super::simulation::Simulation;
use super::{Build, node, plan, setup};
use crate::Input;
use crate::fold::StageStatus;
use serde_json::Value;
use trainyard_core::Placement;
use trainyard_core::event::RunOutcome;
use trainyard_spec::plan::Node;

fn inside(name: &str) -> Node {
    Node { placement: Placement::InProcess, ..node(name) }
}

#[test]
fn a_long_line_inside_the_process_is_cancelled_and_nothing_of_it_starts() {
    let names: Vec<String> = (0..200).map(|i| format!("n{i}")).collect();
    let mut sim = Simulation::new(&plan(names.iter().map(|name| inside(name)).collect()), setup());
    sim.feed(Input::Begin);
    for _ in &names {
        sim.carry_out(0);
    }
    assert_eq!(sim.launched.len(), 64, "the others wait for a place");
    sim.feed(Input::Cancel { why: "Ctrl-C".into() });
    assert_eq!(sim.finish(), RunOutcome::Cancelled);
    assert_eq!(sim.launched.len(), 64);
    assert!(sim.view().stages.iter().all(|stage| stage.status == StageStatus::Cancelled));
}

#[test]
fn a_stage_that_ended_keeps_no_config_and_no_inputs() {
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
