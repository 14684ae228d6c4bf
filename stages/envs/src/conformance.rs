//! Checks that an environment behaves as training needs it to; an environment may ship when [`check`] passes for it.
//!
//! - *Resets repeat*: the same problem, seed and turns give the same messages and outcome.
//! - *The end is final*: an episode that has ended accepts neither a step nor a fork, and one with pending results
//!   accepts neither as well.
//! - *Limits hold*: an agent that never answers is stopped within `max_turns`.
//! - *Forks are independent*: a fork continues as the original would, and neither affects the other.
//! - *Transcripts round-trip*: the message of a turn keeps the text, and a rendered call parses back to the same call.
//! - *Counts add up*: the outcome counts the calls of all observations and those of a turn that ends the episode.
//!
//! Environments that generate problems must also pass [`generated::check`].

pub mod generated;

use crate::environments::{Environment, Episode, EpisodeStep, Observation, Outcome};
use std::time::Duration;
use trainyard_tables::{Message, Problem, StopReason};

/// Maximum wait for one observation.
const OBSERVATION_TIMEOUT: Duration = Duration::from_secs(60);

/// A scripted agent for one problem.
pub struct AgentScript<'a> {
    pub problem: &'a Problem,
    /// Turns. All but the last make tool calls; the last one ends the episode with a correct answer, in words or by the
    /// call that brings the environment into the expected state. The first of several turns must never end the episode
    /// before its limits, however often it is repeated. A single-turn environment needs one turn.
    pub turns: &'a [&'a str],
    /// A turn whose tool call changes the tool's state so that `turns` would fail if forks shared state.
    pub disturbance: &'a str,
}

/// Record of one episode.
#[derive(Debug, Clone, PartialEq, Default)]
struct EpisodeTrace {
    messages: Vec<Message>,
    observations: Vec<Observation>,
    outcome: Option<Outcome>,
}

/// A property of environments, and whether it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PropertyFinding {
    /// Short description of the property.
    pub property: &'static str,
    /// `Ok` if the property holds, otherwise the reason. `None` if it was not checked because the script did not reach
    /// its end or has a single turn.
    pub result: Option<Result<(), String>>,
}

/// Runs the whole suite. The error describes the first property that does not hold.
pub fn check(environment: &dyn Environment, script: &AgentScript<'_>) -> Result<(), String> {
    findings(environment, script).into_iter().filter_map(|finding| finding.result).collect()
}

/// Runs the whole suite and returns a finding for every property, in order.
pub fn findings(environment: &dyn Environment, script: &AgentScript<'_>) -> Vec<PropertyFinding> {
    let trace = scripted(environment, script).and_then(|()| play(environment, script, 7));
    let with_trace = |look: &dyn Fn(&EpisodeTrace) -> Result<(), String>| trace.as_ref().ok().map(look);
    // With a single turn, limits and forks cannot be checked.
    let several = script.turns.len() > 1 && trace.is_ok();
    let first = script.turns.first().copied().unwrap_or_default();
    let finding = |property, result| PropertyFinding { property, result };
    vec![
        finding("the script can be played", Some(trace.as_ref().map(|_| ()).map_err(Clone::clone))),
        finding("resets repeat", with_trace(&|trace| repeats(environment, script, trace))),
        finding("the answer is accepted and counts add up", with_trace(&|trace| answers(environment, script, trace))),
        finding("the end is final", with_trace(&|_| refuses_late_turns(environment, script))),
        finding("limits hold", several.then(|| limits_hold(environment, script, first))),
        finding("forks are independent", with_trace(&|trace| forks(environment, script, trace)).filter(|_| several)),
        finding("transcripts round-trip", Some(round_trips(environment, script))),
    ]
}

/// Reason why no script can play the episodes of an environment.
const PROGRAM_DRIVEN: &str = "a program drives the episode, so no script can play it";

fn scripted(environment: &dyn Environment, script: &AgentScript<'_>) -> Result<(), String> {
    if !environment.prompts() {
        return Err(PROGRAM_DRIVEN.to_string());
    }
    if script.turns.len() < environment.max_turns().min(2) as usize {
        return Err("the script needs a turn with a call and a turn with the answer".to_string());
    }
    Ok(())
}

fn start(environment: &dyn Environment, script: &AgentScript<'_>, seed: u64) -> Result<Box<dyn Episode>, String> {
    environment.start(script.problem, seed).map_err(|e| format!("start: {e}"))
}

fn opening(environment: &dyn Environment, script: &AgentScript<'_>) -> Result<Vec<Message>, String> {
    environment.prompt(script.problem).map_err(|e| format!("prompt: {e}"))
}

/// Takes one turn and waits for its observation; never returns `Pending`. Checks on the way that a pending episode
/// accepts neither a turn nor a fork.
fn turn(environment: &dyn Environment, episode: &mut dyn Episode, text: &str) -> Result<EpisodeStep, String> {
    let turn = environment.format().parse(text);
    match episode.step(&turn).map_err(|e| format!("step: {e}"))? {
        EpisodeStep::Pending => {
            if episode.step(&turn).is_ok() {
                return Err("a turn was accepted while results are pending".to_string());
            }
            if episode.fork().is_ok() {
                return Err("a fork was made while results are pending".to_string());
            }
            match episode.poll(OBSERVATION_TIMEOUT).map_err(|e| format!("poll: {e}"))? {
                None | Some(EpisodeStep::Pending) => Err(format!("no observation within {OBSERVATION_TIMEOUT:?}")),
                Some(step) => Ok(step),
            }
        }
        step => Ok(step),
    }
}

fn play_turns(
    environment: &dyn Environment,
    episode: &mut dyn Episode,
    texts: &[&str],
    trace: &mut EpisodeTrace,
) -> Result<(), String> {
    for text in texts {
        trace.messages.push(environment.format().parse(text).message());
        match turn(environment, episode, text)? {
            EpisodeStep::Pending => return Err("still pending".to_string()),
            EpisodeStep::TurnRequest(_) => return Err(PROGRAM_DRIVEN.to_string()),
            EpisodeStep::Observe(observation) => {
                trace.messages.extend(observation.messages.iter().cloned());
                trace.observations.push(observation);
            }
            EpisodeStep::Done(outcome) => {
                trace.outcome = Some(outcome);
                return Ok(());
            }
        }
    }
    Ok(())
}

fn play(environment: &dyn Environment, script: &AgentScript<'_>, seed: u64) -> Result<EpisodeTrace, String> {
    let mut trace = EpisodeTrace { messages: opening(environment, script)?, ..EpisodeTrace::default() };
    let mut episode = start(environment, script, seed)?;
    play_turns(environment, &mut *episode, script.turns, &mut trace)?;
    Ok(trace)
}

fn repeats(environment: &dyn Environment, script: &AgentScript<'_>, expected: &EpisodeTrace) -> Result<(), String> {
    let second = play(environment, script, 7)?;
    if second == *expected {
        Ok(())
    } else {
        Err(format!("two episodes of one seed differ: {expected:?} and {second:?}"))
    }
}

fn answers(environment: &dyn Environment, script: &AgentScript<'_>, expected: &EpisodeTrace) -> Result<(), String> {
    let Some(outcome) = &expected.outcome else { return Err("the script does not end the episode".to_string()) };
    let calls: u32 = expected.observations.iter().map(|o| o.tool_calls).sum();
    let errors: u32 = expected.observations.iter().map(|o| o.tool_errors).sum();
    // The calls of the last turn appear in no observation.
    let unseen = script.turns.last().map_or(0, |last| environment.format().parse(last).calls.len() as u32);
    let counted = (errors..=errors + unseen).contains(&outcome.tool_errors);
    if !counted || (outcome.tool_calls, outcome.turns as usize) != (calls + unseen, script.turns.len()) {
        return Err(format!("the outcome counts {outcome:?}, the observations {calls} calls and {errors} errors"));
    }
    let verified = |answer: &String| environment.verify(script.problem, answer).map_err(|e| format!("verify: {e}"));
    match (&outcome.answer, outcome.stop) {
        (Some(answer), StopReason::Answer) if verified(answer)? => Ok(()),
        _ => Err(format!("the script's answer is not accepted: {outcome:?}")),
    }
}

fn refuses_late_turns(environment: &dyn Environment, script: &AgentScript<'_>) -> Result<(), String> {
    let (mut episode, mut trace) = (start(environment, script, 7)?, EpisodeTrace::default());
    play_turns(environment, &mut *episode, script.turns, &mut trace)?;
    if trace.outcome.is_none() {
        return Err("the last turn does not end the episode".to_string());
    }
    if script.turns.iter().any(|late| episode.step(&environment.format().parse(late)).is_ok()) {
        return Err("a step after the end was accepted".to_string());
    }
    if episode.fork().is_ok() {
        return Err("a fork after the end was accepted".to_string());
    }
    if episode.poll(Duration::ZERO).is_ok_and(|step| step.is_some()) {
        Err("polling after the end returned something".to_string())
    } else {
        Ok(())
    }
}

fn limits_hold(environment: &dyn Environment, script: &AgentScript<'_>, first: &str) -> Result<(), String> {
    let mut episode = start(environment, script, 1)?;
    for taken in 1..=environment.max_turns() {
        match turn(environment, &mut *episode, first)? {
            EpisodeStep::Done(outcome)
                if matches!(outcome.stop, StopReason::Turns | StopReason::ToolLimit) && outcome.turns == taken =>
            {
                return Ok(());
            }
            EpisodeStep::Done(outcome) => return Err(format!("an agent that only calls tools ended with {outcome:?}")),
            EpisodeStep::TurnRequest(_) => return Err(PROGRAM_DRIVEN.to_string()),
            EpisodeStep::Observe(_) | EpisodeStep::Pending => {}
        }
    }
    Err(format!("the episode continues after {} turns", environment.max_turns()))
}

fn forks(environment: &dyn Environment, script: &AgentScript<'_>, expected: &EpisodeTrace) -> Result<(), String> {
    let [first, rest @ ..] = script.turns else { return Ok(()) };
    let mut trace = EpisodeTrace { messages: opening(environment, script)?, ..EpisodeTrace::default() };
    let mut original = start(environment, script, 7)?;
    play_turns(environment, &mut *original, &[first], &mut trace)?;
    let fork = |episode: &dyn Episode| episode.fork().map_err(|e| format!("fork: {e}"));
    let mut disturbed = fork(&*original)?;
    let mut equal = fork(&*original)?;
    turn(environment, &mut *disturbed, script.disturbance)?;
    let mut fork_trace = trace.clone();
    play_turns(environment, &mut *original, rest, &mut trace)?;
    play_turns(environment, &mut *equal, rest, &mut fork_trace)?;
    if trace != *expected {
        return Err("a fork changed its original".to_string());
    }
    if fork_trace != *expected { Err("a fork continues differently from its original".to_string()) } else { Ok(()) }
}

fn round_trips(environment: &dyn Environment, script: &AgentScript<'_>) -> Result<(), String> {
    for text in script.turns {
        let turn = environment.format().parse(text);
        if turn.message().content != *text {
            return Err(format!("the message of `{text}` contains different text"));
        }
        for call in turn.calls.iter().flatten() {
            if environment.format().parse(&environment.format().render(call)).calls != [Ok(call.clone())] {
                return Err(format!("`{call:?}` does not parse back from its rendering"));
            }
        }
    }
    Ok(())
}
