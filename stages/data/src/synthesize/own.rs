//! The methods `process` and `http`: a user-defined program or service makes problems, and the turns that solve them.
//!
//! The turns are played in the environment, as those of every method, so results are the tools' own. A demonstration
//! that does not end with an answer which the verifier accepts is dropped and counted.

use super::config::Config;
use super::method::{Method, Synthesized, World};
use super::own_draw::Source;
use super::own_options::OwnGenerator;
use super::own_problem::Made;
use super::play::{Played, Script, play};
use super::procedural::{DEMONSTRATIONS, summary};
use super::{metrics, splits::Split};
use serde_json::Value;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use trainyard_core::{Chance, Error, Metric, OptionProblem, Result};
use trainyard_envs::Environment;
use trainyard_envs::environments::{Environments, math_problems};
use trainyard_envs::programs::{PeerOptions, ServiceOptions};
use trainyard_process::{Hello, ProgramOptions};
use trainyard_tables::{Problem, Trajectory};

/// Documentation of such a method, and access to its options.
pub trait OwnMethodPage: PeerOptions {
    /// Summary, as in [`Method`].
    const SUMMARY: &'static str;
    /// Returns the method's options.
    fn of(config: &Config) -> Option<&OwnGenerator<Self>>;
}

impl OwnMethodPage for ProgramOptions {
    const SUMMARY: &'static str = "problems and demonstrations of a program of yours, in any language";
    fn of(config: &Config) -> Option<&OwnGenerator<Self>> {
        config.process.as_ref()
    }
}

impl OwnMethodPage for ServiceOptions {
    const SUMMARY: &'static str = "problems and demonstrations of a service of yours, over HTTP";
    fn of(config: &Config) -> Option<&OwnGenerator<Self>> {
        config.http.as_ref()
    }
}

pub struct OwnMethod<P>(PhantomData<fn() -> P>);

impl<P> OwnMethod<P> {
    pub const METHOD: Self = Self(PhantomData);
}

impl<P: OwnMethodPage> Method for OwnMethod<P> {
    fn name(&self) -> &'static str {
        P::KIND
    }
    fn summary(&self) -> &'static str {
        P::SUMMARY
    }
    fn metrics(&self) -> Vec<Metric> {
        metrics::own(["<split>"])
    }
    fn declared(&self, config: &Config) -> Vec<Metric> {
        metrics::own(config.splits.keys().map(String::as_str))
    }
    fn environment(&self) -> Value {
        math_problems::default_options()
    }
    fn levels(&self, config: &Config, _: &dyn Environment) -> u32 {
        P::of(config).map_or(1, |own| own.levels)
    }
    fn check(&self, config: &Config, _: Option<&dyn Environment>, _: &Environments) -> Vec<OptionProblem> {
        let Some(own) = P::of(config) else {
            let problem = OptionProblem::new(format!("/{}", P::KIND), format!("the method `{}` needs it", P::KIND));
            return vec![problem.help("say who makes the problems; docs/own-code.md has an example")];
        };
        let mut problems: Vec<OptionProblem> =
            own.peer.problems().into_iter().map(|problem| problem.within(&format!("/{}", P::KIND))).collect();
        let within = |problem: OptionProblem| problem.within(&format!("/{}", P::KIND));
        problems.extend(own.batch.problem().map(within));
        problems.extend(OptionProblem::outside("/levels", own.levels, 1..=1000).map(within));
        problems.extend(Split::check_all(&config.splits, own.levels, DEMONSTRATIONS));
        problems
    }
    fn make(&self, config: &Config, given: Vec<Problem>, world: &World<'_>) -> Result<Synthesized> {
        let own = P::of(config).ok_or_else(|| Error::bug("a generator is asked without options"))?;
        if !given.is_empty() {
            return Err(Error::invalid(format!("method `{}` makes its own problems", P::KIND))
                .help("leave input `problems` out, or use method `annotated` or `teacher`"));
        }
        let hello = Hello { role: "generator", name: &own.name, seed: config.seed };
        let peer = own.peer.open(hello, world.models.secrets(), world.log)?;
        let source = Source {
            peer: &*peer,
            batch: own.batch,
            kind: P::KIND,
            environment: world.environment.kind(),
            levels: own.levels,
            chance: Chance::new(config.seed),
        };
        // Drawing comes before the first demonstration, so its progress is 0.
        let drawn = source.draw_all(&config.splits, &|_| (world.progress)(0, 1))?;
        let (demonstrations, dropped) = demonstrate(&drawn, peer.place(), world)?;
        let problems: Vec<Problem> = drawn.into_iter().map(|made| made.problem).collect();
        let mut report = summary(&problems, &demonstrations, "problems");
        report.metric("dropped", dropped.values().sum::<usize>() as f64);
        for (reason, count) in &dropped {
            report.metric(format!("dropped_{reason}"), *count as f64);
        }
        Ok(Synthesized { problems, demonstrations, report })
    }
}

/// Plays the turns of the split that is demonstrated. Returns counts of dropped demonstrations, by reason.
fn demonstrate(
    drawn: &[Made],
    place: &str,
    world: &World<'_>,
) -> Result<(Vec<Trajectory>, BTreeMap<&'static str, usize>)> {
    let shown: Vec<&Made> = drawn.iter().filter(|made| made.problem.split == DEMONSTRATIONS).collect();
    if let Some(mute) = shown.iter().find(|made| made.turns.is_empty()) {
        let error = Error::data(format!("problem `{}` of the split `demonstrations` has no `turns`", mute.problem.id));
        return Err(error.help("give what the agent writes, turn by turn").at(place));
    }
    let scripts: Vec<Script<'_>> = shown
        .iter()
        .zip(0..)
        .map(|(made, seed)| Script {
            id: format!("{}-demonstration", made.problem.id),
            problem: &made.problem,
            turns: made.turns.clone(),
            seed,
        })
        .collect();
    let played = play(world.environment, &scripts, |done| (world.progress)(done, scripts.len()))?;
    let (mut kept, mut dropped) = (Vec::new(), BTreeMap::new());
    for (played, script) in played.into_iter().zip(&scripts) {
        match fault(&played, script.turns.len()) {
            Some(reason) => *dropped.entry(reason).or_insert(0) += 1,
            None => kept.push(played.trajectory),
        }
    }
    Ok((kept, dropped))
}

/// Returns why an episode is no demonstration.
fn fault(played: &Played, turns: usize) -> Option<&'static str> {
    if played.timed_out {
        Some("time_limit")
    } else if played.turns < turns {
        Some("ended_early")
    } else {
        (played.trajectory.reward < 1.0).then_some("wrong_answer")
    }
}
