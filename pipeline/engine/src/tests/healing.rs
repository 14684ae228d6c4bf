//! Tests that a damaged generation is computed again as the next one, once, and that no other stage is.

use super::simulation::Simulation;
use super::{Build, key, node, plan, setup};
use crate::fold::StageStatus::{Blocked, Done, Failed, Hit};
use serde_json::json;
use std::collections::BTreeMap;
use trainyard_core::Error;
use trainyard_core::artifact::GenerationReason::{self, Lost, Rerun};
use trainyard_core::event::{AttemptOutcome, Event, RunOutcome, Selection};
use trainyard_spec::plan::Plan;
use trainyard_spec::template::Template;

/// Returns a producer `a` and its consumer `b`.
fn chain(tail: &str) -> Plan {
    let mut consumer = node("b").reads(&["a"]);
    consumer.config = Template::Literal(json!({ "tail": tail }));
    plan(vec![node("a"), consumer])
}

/// Returns run number `run`, on the store that an earlier simulation left.
fn after(before: &Simulation, run: u32, plan: &Plan, selection: Selection) -> Simulation {
    let mut setup = setup();
    setup.run.0 = format!("20261121-000000-{run:06}");
    setup.selection = selection;
    let mut sim = Simulation::new(plan, setup);
    sim.store = before.store.clone();
    sim.damaged = before.damaged.clone();
    sim
}

/// Damages the newest generation of a stage.
fn damage(sim: &mut Simulation, stage: &str) {
    let newest = sim.store.iter().rfind(|(_, m)| m.provenance.stage == key(stage)).map(|(name, _)| name.clone());
    sim.damaged.extend(newest);
}

fn generations(sim: &Simulation, stage: &str) -> Vec<(u32, Option<GenerationReason>)> {
    sim.store.values().filter(|m| m.provenance.stage == key(stage)).map(|m| (m.generation, m.reason)).collect()
}

/// Returns a first run, whose `a` is damaged afterwards.
fn damaged() -> Simulation {
    let mut first = Simulation::new(&chain("one"), setup());
    assert_eq!(first.finish(), RunOutcome::Succeeded);
    damage(&mut first, "a");
    first
}

#[test]
fn a_damaged_generation_is_followed_by_the_next_and_equal_bytes_leave_downstream_a_hit() {
    let mut again = after(&damaged(), 1, &chain("one"), Selection::default());
    assert_eq!(again.finish(), RunOutcome::Succeeded);
    assert_eq!(again.launched, ["a"]);
    assert_eq!((again.status("a"), again.status("b")), (Done, Hit));
    assert_eq!(generations(&again, "a"), [(0, None), (1, Some(Lost))]);
    let mut third = after(&again, 2, &chain("one"), Selection::default());
    assert_eq!(third.finish(), RunOutcome::Succeeded);
    assert!(third.launched.is_empty(), "what was healed is a hit");
}

#[test]
fn rerun_of_a_damaged_stage_publishes_the_next_generation() {
    let rerun = Selection { rerun: vec!["a".into()], ..Selection::default() };
    let mut again = after(&damaged(), 1, &chain("one"), rerun);
    assert_eq!(again.finish(), RunOutcome::Succeeded);
    assert_eq!(generations(&again, "a"), [(0, None), (1, Some(Rerun))]);
    assert_eq!(again.status("b"), Hit);
}

#[test]
fn lookup_only_stage_is_not_recomputed() {
    let only = Selection { only: vec!["b".into()], ..Selection::default() };
    let mut again = after(&damaged(), 1, &chain("one"), only);
    assert_eq!(again.finish(), RunOutcome::Failed);
    assert!(again.launched.is_empty());
    assert!(again.error("a").contains("generation 0 cannot be used: it is unreadable"), "{}", again.error("a"));
    assert_eq!((again.status("a"), again.status("b")), (Failed, Blocked));
}

/// Corrupts the bytes of the newest generation of a stage, which only a reader notices.
fn spoil(sim: &mut Simulation, stage: &str) {
    let newest = sim.store.iter().rfind(|(_, m)| m.provenance.stage == key(stage)).map(|(name, _)| name.clone());
    sim.unread.extend(newest);
}

/// Returns run number 1 of a plan whose stages of these names were published before and have corrupt bytes.
fn spoiled(first_plan: &Plan, second_plan: &Plan, stages: &[&str]) -> Simulation {
    let mut first = Simulation::new(first_plan, setup());
    assert_eq!(first.finish(), RunOutcome::Succeeded);
    let mut sim = after(&first, 1, second_plan, Selection::default());
    stages.iter().for_each(|stage| spoil(&mut sim, stage));
    sim
}

#[test]
fn damage_that_only_a_reader_finds_is_healed_before_the_reader_runs_again() {
    // Names and sizes are correct, so `a` is a hit; the attempt of `b` reads the bytes.
    let mut consumer = node("b").reads(&["a"]);
    consumer.config = Template::Literal(json!({"tail": "two"}));
    consumer.retry.attempts = 1;
    let mut sim = spoiled(&chain("one"), &plan(vec![node("a"), consumer]), &["a"]);
    assert_eq!(sim.finish(), RunOutcome::Succeeded, "{}", sim.error("b"));
    assert_eq!(sim.launched, ["b", "a", "b"]);
    assert_eq!((sim.status("a"), sim.status("b")), (Done, Done));
    assert_eq!(generations(&sim, "a"), [(0, None), (1, Some(Lost))]);
    let waits = |event: &Event| matches!(event, Event::Queued { why, .. } if why.contains("`a` runs again"));
    assert!(sim.journal.iter().any(|record| waits(&record.event)), "the reason is journaled");
}

#[test]
fn damaged_chain_is_recomputed_from_its_first_stage() {
    let long = |tail: &str| {
        let mut last = node("c").reads(&["b"]);
        last.config = Template::Literal(json!({ "tail": tail }));
        plan(vec![node("a"), node("b").reads(&["a"]), last])
    };
    let mut sim = spoiled(&long("one"), &long("two"), &["a", "b"]);
    assert_eq!(sim.finish(), RunOutcome::Succeeded, "{}", sim.error("c"));
    assert_eq!(sim.launched, ["c", "b", "a", "b", "c"]);
}

#[test]
fn damaged_stage_is_recomputed_once_for_all_readers() {
    let several = |tail: &str| {
        let reader = |name: &str| {
            let mut reader = node(name).reads(&["a"]);
            reader.config = Template::Literal(json!({"name": name, "tail": tail}));
            reader
        };
        // The last has the same digest as `b`.
        let mut equal = reader("b");
        equal.key = key("e");
        plan(vec![node("a"), reader("b"), reader("c"), equal, node("d").reads(&["b", "c"])])
    };
    let mut sim = spoiled(&several("one"), &several("two"), &["a"]);
    assert_eq!(sim.finish(), RunOutcome::Succeeded, "{}{}", sim.error("b"), sim.error("c"));
    assert_eq!(generations(&sim, "a").len(), 2);
    assert_eq!(sim.launched.iter().filter(|name| *name == "a").count(), 1, "{:?}", sim.launched);
}

#[test]
fn recomputation_is_bounded_if_the_store_loses_objects() {
    let mut sim = spoiled(&chain("one"), &chain("two"), &["a"]);
    let stage = sim.store.values().find(|m| m.provenance.stage == key("a")).unwrap().stage_digest.clone();
    sim.unread.extend((1..9).map(|generation| (stage.clone(), generation)));
    assert_eq!(sim.finish(), RunOutcome::Failed);
    assert_eq!(generations(&sim, "a").len(), 3);
    assert!(sim.error("b").contains("damaged"), "{}", sim.error("b"));
}

#[test]
fn failure_with_intact_inputs_is_reported() {
    let mut sim = Simulation::new(&chain("one"), setup()).with(|spec| match spec.stage.0.as_str() {
        "b" => Err((AttemptOutcome::Failed, Error::data("row 7 is damaged"))),
        _ => Ok(BTreeMap::new()),
    });
    assert_eq!(sim.finish(), RunOutcome::Failed);
    assert_eq!(sim.launched, ["a", "b"], "the same bytes are not read a second time");
    assert_eq!((sim.status("a"), sim.error("b").as_str()), (Done, "row 7 is damaged"));
}

#[test]
fn damaged_stage_that_fails_again_blocks_its_readers() {
    let mut sim = spoiled(&chain("one"), &chain("two"), &["a"]).with(|spec| match spec.stage.0.as_str() {
        "a" => Err((AttemptOutcome::Failed, Error::invalid("the source is gone"))),
        _ => Ok(BTreeMap::new()),
    });
    assert_eq!(sim.finish(), RunOutcome::Failed);
    assert_eq!((sim.status("a"), sim.status("b")), (Failed, Blocked));
}
