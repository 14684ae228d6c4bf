//! Checks that a problem generator is repeatable and that its problems can be solved.
//!
//! - *Problems repeat*: the same level, number and seed give the same problem. Levels are clamped and share no problem.
//! - *Canonical forms identify problems*: problems with equal forms have equal ids and accept each other's answers;
//!   problems with different forms have different ids.
//! - *Problems are complete*: id, answer, source, canonical form and question are set, the split is empty, and the
//!   environment accepts the answer.
//! - *Demonstrations solve the problem*: a demonstration that is played in the environment ends the episode on its last
//!   turn with a correct answer, with or without a mistake. Demonstrations repeat, and exactly those that claim a
//!   mistake differ from the clean ones.

use super::turn;
use crate::environments::{Demonstration, Environment, EpisodeStep, ProblemGenerator};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::Chance;
use trainyard_tables::{Problem, StopReason};

/// Checks the environment's generator with the first `count` problems of every level. The error describes the
/// violation.
pub fn check(environment: &dyn Environment, count: u64, chance: &Chance) -> Result<(), String> {
    let generator = environment.generator().ok_or("the environment has no generator")?;
    let mut seen: BTreeMap<String, Problem> = BTreeMap::new();
    for level in 1..=generator.max_level() {
        for index in 0..count {
            let place = |e: String| format!("level {level}, number {index}: {e}");
            let problem = generator.problem(level, index, chance);
            if generator.problem(level, index, chance) != problem {
                return Err(place("a second call gives a different problem".to_string()));
            }
            check_fields(environment, &problem, level).map_err(place)?;
            let right = check_demonstration(environment, generator, (level, index, chance), 0.0).map_err(place)?;
            let other = check_demonstration(environment, generator, (level, index, chance), 1.0).map_err(place)?;
            if right.mistaken || other.mistaken == (other.turns == right.turns) {
                return Err(place(format!("`mistaken` does not match the turns: {right:?}, {other:?}")));
            }
            if let Some(earlier) = seen.insert(problem.canonical.clone(), problem.clone())
                && !same(environment, &earlier, &problem)
            {
                return Err(place(format!("`{}` and `{}` share one canonical form", earlier.id, problem.id)));
            }
        }
    }
    let ids: BTreeSet<&str> = seen.values().map(|p| p.id.as_str()).collect();
    if ids.len() < seen.len() {
        return Err("two canonical forms share one id".to_string());
    }
    for (beyond, level) in [(0, 1), (generator.max_level() + 1, generator.max_level())] {
        if generator.problem(beyond, 0, chance) != generator.problem(level, 0, chance) {
            return Err(format!("level {beyond} is not clamped to {level}"));
        }
    }
    Ok(())
}

fn check_fields(environment: &dyn Environment, problem: &Problem, level: u32) -> Result<(), String> {
    if (problem.environment.as_str(), problem.level, problem.split.as_str()) != (environment.kind(), level, "") {
        return Err(format!("wrong environment, level or split: {problem:?}"));
    }
    let texts = [
        ("id", &problem.id),
        ("answer", &problem.answer),
        ("source", &problem.source),
        ("canonical", &problem.canonical),
    ];
    if let Some((name, _)) = texts.iter().find(|(_, text)| text.is_empty()) {
        return Err(format!("`{name}` is empty"));
    }
    if problem.question().is_empty() {
        return Err("the question is empty".to_string());
    }
    if environment.verify(problem, &problem.answer).map_err(|e| format!("verify: {e}"))? {
        Ok(())
    } else {
        Err(format!("the environment rejects the problem's own answer: {problem:?}"))
    }
}

fn same(environment: &dyn Environment, a: &Problem, b: &Problem) -> bool {
    let right = |problem: &Problem, answer: &str| environment.verify(problem, answer).unwrap_or(false);
    (&a.id, a.level) == (&b.id, b.level) && right(a, &b.answer) && right(b, &a.answer)
}

fn check_demonstration(
    environment: &dyn Environment,
    generator: &dyn ProblemGenerator,
    (level, index, chance): (u32, u64, &Chance),
    mistakes: f64,
) -> Result<Demonstration, String> {
    let demonstration_chance = chance.child("demonstration", &[u64::from(level), index]);
    let demonstration = generator.demonstration(level, index, chance, mistakes, &demonstration_chance);
    if generator.demonstration(level, index, chance, mistakes, &demonstration_chance) != demonstration {
        return Err("a second call gives a different demonstration".to_string());
    }
    play(environment, &generator.problem(level, index, chance), &demonstration)
        .map_err(|e| format!("{e}: {demonstration:?}"))?;
    Ok(demonstration)
}

fn play(environment: &dyn Environment, problem: &Problem, demonstration: &Demonstration) -> Result<(), String> {
    let mut episode = environment.start(problem, 7).map_err(|e| format!("start: {e}"))?;
    let mut last_result = String::new();
    for (at, scripted) in demonstration.turns.iter().enumerate() {
        let text = scripted.text(environment.format(), &last_result);
        match turn(environment, &mut *episode, &text)? {
            EpisodeStep::Observe(observation) => {
                if let Some(result) = observation.messages.into_iter().rfind(|m| m.role == "tool") {
                    last_result = result.content;
                }
            }
            EpisodeStep::Done(outcome) if at + 1 < demonstration.turns.len() => {
                return Err(format!("turn {} ends the episode: {outcome:?}", at + 1));
            }
            EpisodeStep::Done(outcome) => {
                let verified = |answer: &str| environment.verify(problem, answer).map_err(|e| format!("verify: {e}"));
                let right = outcome.answer.as_deref().map(verified).transpose()?.unwrap_or(false);
                return if right && outcome.stop == StopReason::Answer {
                    Ok(())
                } else {
                    Err(format!("the demonstration ends with {outcome:?}"))
                };
            }
            EpisodeStep::TurnRequest(_) => return Err("a program drives the episode".to_string()),
            EpisodeStep::Pending => return Err("still pending".to_string()),
        }
    }
    Err("the episode continues after the last turn".to_string())
}
