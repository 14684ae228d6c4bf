//! A damaged generation is computed again as the next one, once, and nothing else is.

use super::simulation::Simulation;
use super::{Build, key, node, plan, setup};
use crate::fold::StageStatus::{Blocked, Done, Failed, Hit};
use serde_json::json;
use std::collections::BTreeMap;
use trainyard_core::Error;
use trainyard_core::artifact::GenerationReason::{self, Lost, Rerun};
use trainyard_core::event::{AttemptOutcome, RunOutcome, Selection};
use trainyard_spec::plan::Plan;
use trainyard_spec::template::Template;

/// A producer `a` and its consumer `b`.
fn chain(tail: &str) -> Plan {
    let mut consumer = node("b").reads(&["a"]);
    consumer.config = Template::Literal(json!({ "tail": tail }));
    plan(vec![node("a"), consumer])
}

/// Run number `run`, on the store that an earlier simulation left.
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

/// A first run, whose `a` is damaged afterwards.
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
fn a_rerun_of_what_is_damaged_takes_the_next_generation_too() {
    let rerun = Selection { rerun: vec!["a".into()], ..Selection::default() };
    let mut again = after(&damaged(), 1, &chain("one"), rerun);
    assert_eq!(again.finish(), RunOutcome::Succeeded);
    assert_eq!(generations(&again, "a"), [(0, None), (1, Some(Rerun))]);
    assert_eq!(again.status("b"), Hit);
}

#[test]
fn a_stage_that_may_only_be_looked_up_is_not_healed_and_says_why() {
    let only = Selection { only: vec!["b".into()], ..Selection::default() };
    let mut again = after(&damaged(), 1, &chain("one"), only);
    assert_eq!(again.finish(), RunOutcome::Failed);
    assert!(again.launched.is_empty());
    assert!(again.error("a").contains("generation 0 cannot be used: it is unreadable"), "{}", again.error("a"));
    assert_eq!((again.status("a"), again.status("b")), (Failed, Blocked));
}

#[test]
fn damage_that_only_a_reader_finds_fails_the_reader_at_once_and_the_next_run_heals() {
    let mut first = Simulation::new(&chain("one"), setup());
    first.finish();
    // Names and sizes are right, so `a` is a hit; the attempt of `b` reads the bytes.
    let mut finds = after(&first, 1, &chain("two"), Selection::default()).with(|spec| match spec.stage.0.as_str() {
        "b" => Err((AttemptOutcome::Failed, Error::data("an object is damaged"))),
        _ => Ok(BTreeMap::new()),
    });
    assert_eq!(finds.finish(), RunOutcome::Failed);
    assert_eq!(finds.launched, ["b"], "the same bytes are not read a second time");
    assert_eq!((finds.status("a"), finds.status("b")), (Hit, Failed));
    // The reader removed the object.
    damage(&mut finds, "a");
    let mut heals = after(&finds, 2, &chain("two"), Selection::default());
    assert_eq!(heals.finish(), RunOutcome::Succeeded);
    assert_eq!(heals.launched, ["a", "b"]);
    assert_eq!(generations(&heals, "a"), [(0, None), (1, Some(Lost))]);
}
