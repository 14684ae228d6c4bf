//! Tests the limit of preemptions, which use up no retry.

use super::simulation::{Script, Simulation};
use super::{node, plan, setup};
use crate::{Command, Input, NodeId};
use std::collections::BTreeMap;
use trainyard_core::Error;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::event::{AttemptOutcome, Event, RunOutcome};
use trainyard_spec::plan::{DEFAULT_PREEMPTIONS, Plan, PlanNode, Retry};

fn preempted() -> (AttemptOutcome, Error) {
    (AttemptOutcome::Lost, Error::lost("preempted for a job of higher priority").by_preemption())
}
fn lost() -> (AttemptOutcome, Error) {
    (AttemptOutcome::Lost, Error::lost("its node failed"))
}

fn one(attempts: u32, preemptions: u32) -> Plan {
    let stage = node("a");
    plan(vec![PlanNode { retry: Retry { attempts, preemptions, ..stage.retry.clone() }, ..stage }])
}

/// Ends the attempts with these ends, in turn, and succeeds after them.
fn ends(ends: Vec<(AttemptOutcome, Error)>) -> Script {
    Box::new(move |spec: &AttemptSpec| match ends.get(spec.attempt as usize - 1) {
        Some(end) => Err(end.clone()),
        None => Ok(BTreeMap::new()),
    })
}

/// Returns the outcome of the run, the number of attempts, and the error of the stage.
fn run(plan: &Plan, script: Script) -> (RunOutcome, usize, String) {
    let mut sim = Simulation::new(plan, setup());
    sim.script = script;
    let outcome = sim.finish();
    (outcome, sim.launched.len(), sim.error("a"))
}

#[test]
fn preemptions_use_up_no_retry() {
    let twenty = (0..20).map(|_| preempted()).collect();
    assert_eq!(run(&one(1, DEFAULT_PREEMPTIONS), ends(twenty)), (RunOutcome::Succeeded, 21, String::new()));
    let mixed = vec![preempted(), lost(), preempted(), preempted(), lost(), preempted()];
    assert_eq!(run(&one(3, DEFAULT_PREEMPTIONS), ends(mixed.clone())).0, RunOutcome::Succeeded);
    let (outcome, attempts, error) = run(&one(2, DEFAULT_PREEMPTIONS), ends(mixed));
    assert_eq!((outcome, attempts, error.as_str()), (RunOutcome::Failed, 5, "its node failed"));
}

#[test]
fn preemptions_have_a_limit_of_their_own() {
    let many = || ends((0..9).map(|_| preempted()).collect());
    let (outcome, attempts, error) = run(&one(9, 3), many());
    assert_eq!((outcome, attempts), (RunOutcome::Failed, 4));
    assert!(error.starts_with("preempted 4 times: ") && error.contains("raise `preemptions`"), "{error}");
    assert_eq!(run(&one(9, 0), many()).1, 1, "no attempt after the first preemption");
}

#[test]
fn stage_that_does_not_retry_lost_attempts_does_not_retry_preempted_ones() {
    let stage = node("a");
    let plan = plan(vec![PlanNode { retry: Retry { on: Vec::new(), ..stage.retry.clone() }, ..stage }]);
    assert_eq!(run(&plan, ends(vec![preempted()])).1, 1);
}

#[test]
fn progress_resets_the_count() {
    let mut sim = Simulation::new(&one(1, 1), setup());
    sim.script = ends((0..4).map(|_| preempted()).collect());
    sim.feed(Input::Begin);
    while !sim.engine.is_finished() {
        match sim.pending.first() {
            Some(Command::Launch { spec, .. }) => {
                let attempt = spec.attempt;
                sim.feed(Input::CheckpointSaved { node: NodeId(0), attempt, step: u64::from(attempt) });
                sim.carry_out(0);
            }
            Some(_) => sim.carry_out(0),
            None => {
                sim.now = sim.engine.next_wake().expect("a retry");
                sim.feed(Input::Tick);
            }
        }
    }
    assert_eq!((sim.outcome(), sim.launched.len()), (RunOutcome::Succeeded, 5));
}

#[test]
fn waits_grow_with_the_preemptions() {
    let mut sim = Simulation::new(&one(1, 9), setup());
    sim.script = ends((0..3).map(|_| preempted()).collect());
    sim.finish();
    let waits = sim.journal.iter().filter_map(|record| match record.event {
        Event::RetryScheduled { not_before, .. } => Some(not_before - record.at),
        _ => None,
    });
    assert_eq!(waits.collect::<Vec<_>>(), [5_000, 10_000, 20_000]);
}
