//! Tests attempts that outlive their engine: their handles, and how the next engine continues them.

use super::simulation::Simulation;
use super::{key, node, plan, setup};
use crate::{AttemptCompletion, Command, Input, NodeId};
use trainyard_core::Error;
use trainyard_core::event::{AttemptOutcome, Event, RunOutcome};
use trainyard_spec::plan::Plan;

const A: NodeId = NodeId(0);

/// Returns an engine whose only attempt has a handle.
fn launched(plan: &Plan) -> Simulation {
    let mut sim = Simulation::new(plan, setup());
    sim.feed(Input::Begin);
    sim.carry_out(0);
    assert!(matches!(sim.pending[..], [Command::Launch { .. }]));
    sim.feed(Input::Submitted { node: A, attempt: 1, handle: "4711".into() });
    sim
}

/// Returns the next engine, which must recover the attempt.
fn next(plan: &Plan, before: Simulation) -> Simulation {
    let mut sim = before.next_engine(plan);
    sim.carry_out(0);
    sim
}

#[test]
fn a_handle_is_journaled_and_handed_to_the_next_engine() {
    let plan = plan(vec![node("a")]);
    let sim = launched(&plan);
    let last = sim.journal.last().unwrap().event.clone();
    assert_eq!(last, Event::AttemptSubmitted { stage: key("a"), attempt: 1, handle: "4711".into() });
    let sim = next(&plan, sim);
    let [Command::Recover { pool, handle, spec, .. }] = &sim.pending[..] else { panic!("{:?}", sim.pending) };
    assert_eq!((pool.as_str(), handle.as_deref(), spec.attempt), ("local", Some("4711"), 1));
}

#[test]
fn events_of_a_recovered_attempt_are_journaled() {
    let plan = plan(vec![node("a")]);
    let mut sim = next(&plan, launched(&plan));
    let before = sim.journal.len();
    sim.feed(Input::Submitted { node: A, attempt: 1, handle: "4711".into() });
    sim.feed(Input::AttemptWaits { node: A, attempt: 1, why: Some("requeued".into()) });
    sim.feed(Input::AttemptWaits { node: A, attempt: 1, why: None });
    sim.feed(Input::AttemptWaits { node: A, attempt: 2, why: Some("another attempt".into()) });
    let types: Vec<&Event> = sim.journal[before..].iter().map(|record| &record.event).collect();
    assert!(
        matches!(
            types[..],
            [Event::AttemptSubmitted { .. }, Event::AttemptWaiting { .. }, Event::AttemptWorking { .. }]
        ),
        "{types:?}"
    );
}

#[test]
fn the_failure_of_a_recovered_attempt_is_a_try() {
    let error = || Error::retryable("503");
    for (attempts, outcome) in [(1, RunOutcome::Failed), (2, RunOutcome::Succeeded)] {
        let mut stage = node("a");
        stage.retry.attempts = attempts;
        let plan = plan(vec![stage]);
        let mut sim = next(&plan, launched(&plan));
        sim.pending.clear();
        let finished = Some(AttemptCompletion::failed(AttemptOutcome::Failed, error()));
        sim.feed(Input::Recovered { node: A, attempt: 1, finished });
        assert_eq!(sim.finish(), outcome, "{attempts} attempts");
    }
}

#[test]
fn attempt_without_a_trace_is_not_counted() {
    let plan = plan(vec![node("a")]);
    let mut sim = next(&plan, launched(&plan));
    sim.pending.clear();
    sim.feed(Input::Recovered { node: A, attempt: 1, finished: None });
    assert_eq!(sim.finish(), RunOutcome::Succeeded);
}

#[test]
fn finished_run_has_no_wake_time() {
    let lost = |_: &trainyard_core::attempt::AttemptSpec| Err((AttemptOutcome::Lost, Error::lost("gone")));
    let mut sim = Simulation::new(&plan(vec![node("a")]), setup()).with(lost);
    sim.feed(Input::Begin);
    sim.carry_out(0);
    sim.carry_out(0);
    assert!(sim.engine.next_wake().is_some(), "it waits for its second attempt");
    sim.feed(Input::Cancel { why: "test".into() });
    assert!(sim.engine.is_finished());
    assert_eq!(sim.engine.next_wake(), None, "a wake time would tick forever");
}
