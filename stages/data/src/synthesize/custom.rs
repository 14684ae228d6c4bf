//! Implements the methods `process` and `http`: a user-defined program or service makes problems, and the turns that
//! solve them.
//!
//! The turns are played in the environment, as in every method, so all results come from executed tools. A
//! demonstration is dropped and counted if a call hits its time limit, if the episode ends early, or if the verifier
//! rejects the answer.

use super::config::SynthesisConfig;
use super::custom_draw::ProblemSource;
use super::custom_options::CustomGenerator;
use super::custom_problem::SolvedProblem;
use super::method::{SynthesisContext, SynthesisMethod, SynthesisOutput};
use super::play::{EpisodeScript, ScriptedResult, play};
use super::procedural::{DEMONSTRATIONS, summary};
use super::{metrics, splits::Split};
use serde_json::Value;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use trainyard_core::{Chance, Error, MetricInfo, OptionProblem, Result};
use trainyard_envs::Environment;
use trainyard_envs::environments::{Environments, math_problems};
use trainyard_envs::programs::{CustomCodeOptions, ServiceOptions};
use trainyard_process::{Hello, ProgramOptions};
use trainyard_tables::{Problem, Trajectory};

/// Documentation of the method `process` or `http`, and access to its options.
pub trait CustomMethodDocs: CustomCodeOptions {
    /// Summary, as in [`SynthesisMethod`].
    const SUMMARY: &'static str;
    /// Returns the method's options.
    fn options(config: &SynthesisConfig) -> Option<&CustomGenerator<Self>>;
}

impl CustomMethodDocs for ProgramOptions {
    const SUMMARY: &'static str = "problems and demonstrations from a custom program, in any language";
    fn options(config: &SynthesisConfig) -> Option<&CustomGenerator<Self>> {
        config.process.as_ref()
    }
}

impl CustomMethodDocs for ServiceOptions {
    const SUMMARY: &'static str = "problems and demonstrations from a custom HTTP service";
    fn options(config: &SynthesisConfig) -> Option<&CustomGenerator<Self>> {
        config.http.as_ref()
    }
}

pub struct CustomMethod<P>(PhantomData<fn() -> P>);

impl<P> CustomMethod<P> {
    pub const METHOD: Self = Self(PhantomData);
}

impl<P: CustomMethodDocs> SynthesisMethod for CustomMethod<P> {
    fn name(&self) -> &'static str {
        P::KIND
    }
    fn summary(&self) -> &'static str {
        P::SUMMARY
    }
    fn metrics(&self) -> Vec<MetricInfo> {
        metrics::custom(["<split>"])
    }
    fn declared(&self, config: &SynthesisConfig) -> Vec<MetricInfo> {
        metrics::custom(config.splits.keys().map(String::as_str))
    }
    fn environment(&self) -> Value {
        math_problems::default_options()
    }
    fn levels(&self, config: &SynthesisConfig, _: &dyn Environment) -> u32 {
        P::options(config).map_or(1, |options| options.levels)
    }
    fn check(&self, config: &SynthesisConfig, _: Option<&dyn Environment>, _: &Environments) -> Vec<OptionProblem> {
        let Some(options) = P::options(config) else {
            let problem =
                OptionProblem::new(format!("/{}", P::KIND), format!("method `{}` needs its options", P::KIND));
            return vec![
                problem.help("set the program or service that makes problems; docs/custom-code.md has an example"),
            ];
        };
        let mut problems: Vec<OptionProblem> =
            options.peer.problems().into_iter().map(|problem| problem.with_prefix(&format!("/{}", P::KIND))).collect();
        let within = |problem: OptionProblem| problem.with_prefix(&format!("/{}", P::KIND));
        problems.extend(options.batch.problem().map(within));
        problems.extend(OptionProblem::out_of_range("/levels", options.levels, 1..=1000).map(within));
        problems.extend(Split::check_all(&config.splits, options.levels, DEMONSTRATIONS));
        problems
    }
    fn make(
        &self,
        config: &SynthesisConfig,
        given: Vec<Problem>,
        world: &SynthesisContext<'_>,
    ) -> Result<SynthesisOutput> {
        let options = P::options(config).ok_or_else(|| Error::bug("a generator runs without options"))?;
        if !given.is_empty() {
            return Err(Error::invalid(format!("method `{}` makes its own problems", P::KIND))
                .help("leave input `problems` out, or use method `annotated` or `teacher`"));
        }
        let hello = Hello { role: "generator", name: &options.name, seed: config.seed };
        let peer = options.peer.open(hello, world.models.secrets(), world.log)?;
        let source = ProblemSource {
            peer: &*peer,
            batch: options.batch,
            kind: P::KIND,
            environment: world.environment.kind(),
            levels: options.levels,
            chance: Chance::new(config.seed),
        };
        // Drawing comes before the first demonstration, so its progress is 0.
        let drawn = source.draw_all(&config.splits, &|_| (world.progress)(0, 1))?;
        let (demonstrations, dropped) = demonstrate(&drawn, peer.place(), world)?;
        let problems: Vec<Problem> = drawn.into_iter().map(|solved| solved.problem).collect();
        let mut report = summary(&problems, &demonstrations, "problems");
        metrics::report_dropped(&mut report, &dropped);
        Ok(SynthesisOutput { problems, demonstrations, report })
    }
}

/// Plays the turns of the split `demonstrations`. Returns the kept demonstrations, and counts of the dropped ones by
/// reason. Errors: data, if a problem of the split has no turns; those of `play`.
fn demonstrate(
    drawn: &[SolvedProblem],
    place: &str,
    world: &SynthesisContext<'_>,
) -> Result<(Vec<Trajectory>, BTreeMap<&'static str, usize>)> {
    let shown: Vec<&SolvedProblem> = drawn.iter().filter(|solved| solved.problem.split == DEMONSTRATIONS).collect();
    if let Some(unsolved) = shown.iter().find(|solved| solved.turns.is_empty()) {
        let error =
            Error::data(format!("problem `{}` of the split `demonstrations` has no `turns`", unsolved.problem.id));
        return Err(error.help("return the agent's turns in order").at(place));
    }
    let scripts: Vec<EpisodeScript<'_>> = shown
        .iter()
        .zip(0..)
        .map(|(solved, seed)| EpisodeScript {
            id: format!("{}-demonstration", solved.problem.id),
            problem: &solved.problem,
            turns: solved.turns.clone(),
            seed,
        })
        .collect();
    let played = play(world.environment, &scripts, |done| (world.progress)(done, scripts.len()))?;
    let (mut kept, mut dropped) = (Vec::new(), BTreeMap::new());
    for (played, script) in played.into_iter().zip(&scripts) {
        match drop_reason(&played, script.turns.len()) {
            Some(reason) => *dropped.entry(reason).or_insert(0) += 1,
            None => kept.push(played.trajectory),
        }
    }
    Ok((kept, dropped))
}

/// Returns the reason why an episode is not a demonstration, or `None` if it is one.
fn drop_reason(played: &ScriptedResult, turns: usize) -> Option<&'static str> {
    if played.timed_out {
        Some("time_limit")
    } else if played.turns < turns {
        Some("ended_early")
    } else {
        (played.trajectory.reward < 1.0).then_some("wrong_answer")
    }
}
