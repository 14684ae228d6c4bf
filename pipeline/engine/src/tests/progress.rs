//! Tests stages whose attempts fail repeatedly, with and without progress.

use super::cases::{Outcome, metrics};
use super::simulation::Simulation;
use super::{node, plan, setup};
use crate::{Command, Input};
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::event::{AttemptOutcome, Event, RunOutcome};
use trainyard_core::{AttemptNumber, Error};

/// Succeeds at the seventh attempt.
fn the_seventh(spec: &AttemptSpec) -> Outcome {
    if spec.attempt < 7 { Err((AttemptOutcome::Failed, Error::retryable("503"))) } else { metrics(0.5) }
}

/// Runs a stage of so many attempts, each of which stores the resume point of one step before its end.
fn run(attempts: u32, step_of: impl Fn(AttemptNumber) -> u64) -> Simulation {
    let mut stage = node("a");
    stage.retry.attempts = attempts;
    let mut sim = Simulation::new(&plan(vec![stage]), setup()).with(the_seventh);
    sim.feed(Input::Begin);
    while !sim.engine.is_finished() {
        if let Some(Command::Launch { node, spec, .. }) = sim.pending.first() {
            let (node, attempt) = (*node, spec.attempt);
            sim.feed(Input::CheckpointSaved { node, attempt, step: step_of(attempt) });
        }
        if sim.pending.is_empty() {
            sim.now = sim.engine.next_wake().expect("something is left to do");
            sim.feed(Input::Tick);
        } else {
            sim.carry_out(0);
        }
    }
    sim
}

/// Waits between the attempts, in seconds.
fn waits(sim: &Simulation) -> Vec<i64> {
    let wait = |event: &Event, at: i64| match event {
        Event::RetryScheduled { not_before, .. } => Some((not_before - at) / 1_000),
        _ => None,
    };
    sim.journal.iter().filter_map(|record| wait(&record.event, record.at)).collect()
}

#[test]
fn retries_are_unlimited_while_checkpoints_advance() {
    let sim = run(3, |attempt| u64::from(attempt) * 10);
    assert_eq!((sim.outcome(), sim.launched.len()), (RunOutcome::Succeeded, 7));
    assert_eq!(waits(&sim), [5; 6], "waits begin anew, too");
}

#[test]
fn stage_without_progress_is_not_retried() {
    let sim = run(3, |_| 10);
    assert_eq!((sim.outcome(), sim.launched.len()), (RunOutcome::Failed, 3));
    assert_eq!(waits(&sim), [5, 10]);
    let sim = run(3, |attempt| if attempt < 3 { 10 } else { 20 });
    assert_eq!(
        (sim.outcome(), sim.launched.len()),
        (RunOutcome::Failed, 5),
        "the third came further, the fifth did not"
    );
}

#[test]
fn one_attempt_is_never_retried() {
    let sim = run(1, |attempt| u64::from(attempt) * 10);
    assert_eq!((sim.outcome(), sim.launched.len()), (RunOutcome::Failed, 1));
}
