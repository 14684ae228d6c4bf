//! Tests the publication of results: adopted, put again, recovered, or refused.

use super::cases::metrics;
use super::simulation::Simulation;
use super::{Build, key, node, plan, setup};
use crate::fold::StageStatus::Publishing;
use crate::{Command, EngineSetup, Input, ResumeState};
use std::collections::BTreeMap;
use trainyard_core::Error;
use trainyard_core::event::RunOutcome;
use trainyard_spec::plan::Plan;

#[test]
fn publication_of_another_writer_is_adopted() {
    let plan = plan(vec![node("a"), node("b").reads(&["a"])]);
    let mut sim = Simulation::new(&plan, setup());
    sim.feed(Input::Begin);
    sim.carry_out(0);
    sim.carry_out(0);
    let Some(Command::Publish { manifest, .. }) = sim.pending.first().cloned() else { panic!("no publication") };
    let mut theirs = manifest.as_ref().clone();
    theirs.provenance.run.0 = "other".into();
    theirs.metrics.insert("accuracy".into(), 0.75);
    sim.put(theirs);
    assert_eq!(sim.finish(), RunOutcome::Succeeded);
    let view = sim.view();
    let a = view.stage(&key("a")).unwrap();
    assert!(a.adopted);
    assert_eq!(a.metrics["accuracy"], 0.75);
}

/// Responds to the pending publication with an error.
fn fail_publication(sim: &mut Simulation, error: Error) {
    let Some(Command::Publish { node, attempt, .. }) = sim.pending.pop() else { panic!("no publication") };
    sim.feed(Input::Published { node, attempt, answer: Err(error) });
}

/// Runs a plan up to the publication of the first stage.
fn begun(plan: &Plan) -> Simulation {
    let mut sim = Simulation::new(plan, setup());
    sim.feed(Input::Begin);
    sim.carry_out(0);
    sim.carry_out(0);
    sim
}

#[test]
fn failed_put_of_a_manifest_is_retried_without_recomputing() {
    let plan = plan(vec![node("a"), node("b").reads(&["a"])]);
    let mut sim = begun(&plan);
    fail_publication(&mut sim, Error::retryable("503"));
    assert_eq!(sim.status("a"), Publishing);
    assert_eq!(sim.engine.explain(&key("a")).unwrap(), "waits before it publishes attempt 1 again");
    assert_eq!(sim.finish(), RunOutcome::Succeeded);
    assert_eq!(sim.launched, ["a", "b"]);
}

#[test]
fn a_result_that_was_never_published_is_published_by_the_next_writer() {
    let plan = plan(vec![node("a")]);
    let mut sim = begun(&plan);
    for _ in 0..3 {
        fail_publication(&mut sim, Error::retryable("503").help("wait"));
        if let Some(at) = sim.engine.next_wake() {
            sim.now = at;
            sim.feed(Input::Tick);
        }
    }
    assert_eq!(sim.finish(), RunOutcome::Failed);
    assert!(sim.error("a").contains("503; wait; the result is kept, `trainyard runs resume"), "{}", sim.error("a"));
    let mut resumed = Simulation::new(&plan, EngineSetup { resumed: ResumeState::from_view(&sim.view()), ..setup() });
    resumed.results = sim.results.clone();
    assert_eq!(resumed.finish(), RunOutcome::Succeeded);
    assert!(resumed.launched.is_empty());
    assert_eq!(resumed.store.len(), 1);
}

#[test]
fn result_with_missing_objects_is_recomputed() {
    let plan = plan(vec![node("a")]);
    let mut sim = begun(&plan);
    fail_publication(&mut sim, Error::lost("an object is missing"));
    assert_eq!(sim.finish(), RunOutcome::Succeeded);
    assert_eq!(sim.launched, ["a", "a"]);
}

#[test]
fn nan_is_never_published() {
    let plan = plan(vec![node("a")]);
    let mut sim = Simulation::new(&plan, setup()).with(|_| metrics(f64::NAN));
    assert_eq!(sim.finish(), RunOutcome::Failed);
    assert!(sim.store.is_empty());
    assert!(sim.error("a").contains("metric `accuracy` is NaN"), "{}", sim.error("a"));
    assert!(sim.error("a").contains("look at the stage's log"), "{}", sim.error("a"));
}

#[test]
fn a_missing_output_is_named_with_where_to_look() {
    let plan = plan(vec![node("a")]);
    let mut sim = Simulation::new(&plan, setup());
    sim.feed(Input::Begin);
    sim.carry_out(0);
    let Some(Command::Launch { spec, node, .. }) = sim.pending.pop() else { panic!("no launch") };
    let mut result = sim.result(&spec, BTreeMap::new());
    result.outputs.clear();
    sim.feed(Input::Ended { node, attempt: 1, finished: crate::AttemptCompletion::succeeded(result) });
    assert_eq!(sim.finish(), RunOutcome::Failed);
    assert!(sim.error("a").contains("wrote no output `out`; `trainyard logs` shows"), "{}", sim.error("a"));
}

#[test]
fn specs_name_the_secrets_that_a_stage_does_not_get() {
    let mut secret = node("a");
    secret.secrets = vec!["HF_TOKEN".into()];
    let plan = plan(vec![secret]);
    let one = |name: &str| BTreeMap::from([(name.to_string(), format!("env:{name}"))]);
    let secrets = one("HF_TOKEN").into_iter().chain(one("SLACK_WEBHOOK")).collect();
    let mut sim = Simulation::new(&plan, EngineSetup { secrets, ..setup() });
    sim.feed(Input::Begin);
    sim.carry_out(0);
    let Some(Command::Launch { spec, .. }) = sim.pending.first() else { panic!("no launch") };
    assert_eq!((&spec.secrets, &spec.withheld), (&one("HF_TOKEN"), &one("SLACK_WEBHOOK")));
}
