//! Method `procedural`: problems of an environment's generator in disjoint splits, and demonstrations of one of them.
//!
//! The environment's generator gives problems with their canonical forms, and the turns of a demonstrator. Each split draws from
//! chance of its own; a canonical form that an earlier problem has is passed over. The turns are played in the environment, so
//! every result is the tool's own, and the verifier holds the answer that comes out against the generator's. Refuses: an
//! environment without a generator; levels that have too few distinct problems for what is asked.

use super::Config;
use super::coverage::coverage;
use super::method::{Method, Synthesized};
use super::play::{Script, play};
use super::splits::Split;
use crate::hash::xxh64;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_api::Report;
use trainyard_api::report::{Cell, Table};
use trainyard_core::{Chance, Error, OptionProblem, Result};
use trainyard_envs::Environment;
use trainyard_envs::environments::{self, Environments, ProblemGenerator, word_problems};
use trainyard_tables::Problem;

/// The split that is demonstrated.
const DEMONSTRATIONS: &str = "demonstrations";
/// The split that is practiced on.
const PRACTICE: &str = "rl";
/// The split whose questions the coverage is measured on.
const TEST: &str = "test";
/// Draws of a level beyond twenty for each wanted problem, before it counts as exhausted.
const MOST_MISSES: u64 = 1_000;

/// The method `procedural`.
pub struct Procedural;

impl Method for Procedural {
    fn name(&self) -> &'static str {
        "procedural"
    }
    fn summary(&self) -> &'static str {
        "new problems and demonstrations of an environment's generator"
    }
    fn environment(&self) -> Value {
        word_problems::default_options()
    }
    fn check(
        &self,
        config: &Config,
        environment: Option<&dyn Environment>,
        known: &Environments,
    ) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        let generator = environment.and_then(|e| e.generator());
        if let (Some(environment), None) = (environment, generator) {
            let help = format!("method `procedural` works with: {}", environments::generating(known).join(", "));
            let problem = OptionProblem::new("/environment/kind", no_generator(environment.kind()).message);
            problems.push(problem.help(help));
        }
        let most = generator.map_or(u32::MAX, ProblemGenerator::max_level);
        problems.extend(config.splits.iter().flat_map(|(name, split)| split.check(&format!("/splits/{name}"), most)));
        if !config.splits.contains_key(DEMONSTRATIONS) {
            problems.push(
                OptionProblem::new("/splits", "no split `demonstrations`")
                    .help("give it the problems that are to be demonstrated"),
            );
        }
        if !(0.0..=1.0).contains(&config.mistakes) {
            problems.push(
                OptionProblem::new("/mistakes", format!("{} is no share", config.mistakes))
                    .help("a number from 0 to 1"),
            );
        }
        problems
    }
    fn make(
        &self,
        config: &Config,
        given: Vec<Problem>,
        environment: &dyn Environment,
        progress: &dyn Fn(usize, usize) -> Result<()>,
    ) -> Result<Synthesized> {
        if !given.is_empty() {
            return Err(Error::invalid("method `procedural` makes its own problems")
                .help("leave input `problems` out, or use method `annotated`"));
        }
        let generator = environment.generator().ok_or_else(|| no_generator(environment.kind()))?;
        let chance = Chance::new(config.seed);
        let drawn = draw_all(&config.splits, generator, &chance)?;
        let demonstrated: Vec<&Drawn> = drawn.iter().filter(|d| d.problem.split == DEMONSTRATIONS).collect();
        let (scripts, with_mistake) = scripts(&demonstrated, config.mistakes, environment, generator, &chance);
        let played = play(environment, &scripts, |done| progress(done, scripts.len()))?;
        let mut demonstrations = Vec::with_capacity(played.len());
        for (played, script) in played.into_iter().zip(&scripts) {
            if played.timed_out {
                return Err(late(script));
            }
            if played.trajectory.reward < 1.0 || played.turns < script.turns.len() {
                return Err(wrong(script, played.trajectory.answer.as_deref()));
            }
            demonstrations.push(played.trajectory);
        }
        let problems: Vec<Problem> = drawn.into_iter().map(|d| d.problem).collect();
        let mut report = report(&problems, generator.plural());
        report.metric("demonstrations_with_mistake", with_mistake as f64);
        // What is learned from: demonstrations as they stand, and the questions of the problems that are practiced on.
        let shown = demonstrations.iter().flat_map(|t| &t.messages).map(|m| m.content.as_str());
        let practiced = problems.iter().filter(|p| p.split == PRACTICE).map(Problem::question);
        let covered = coverage(problems.iter().filter(|p| p.split == TEST), shown.chain(practiced));
        report.metric("ngram_coverage", covered.grams).metric("ngram_covered_problems", covered.questions);
        Ok(Synthesized { problems, demonstrations, report })
    }
}

fn no_generator(kind: &str) -> Error {
    Error::invalid(format!("environment `{kind}` makes no problems"))
        .help("choose an environment that does: `trainyard stages environments` lists them")
}

/// A problem and where it was drawn.
struct Drawn {
    problem: Problem,
    index: u64,
    chance: Chance,
}

/// All splits, in order of name, level and number; no canonical form occurs twice.
fn draw_all(splits: &BTreeMap<String, Split>, generator: &dyn ProblemGenerator, chance: &Chance) -> Result<Vec<Drawn>> {
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for (name, split) in splits {
        // A split keeps its draws when another one is added, but for problems that the other one has, too.
        let chance = chance.child("split", &[xxh64(name.as_bytes(), 0)]);
        for (level, count) in split.counts(generator.max_level()) {
            let mut fresh = (0..count.saturating_mul(20) + MOST_MISSES)
                .map(|index| Drawn { problem: generator.problem(level, index, &chance), index, chance })
                .filter(|d| seen.insert(d.problem.canonical.clone()));
            for i in 0..count {
                let mut drawn = fresh.next().ok_or_else(|| {
                    Error::invalid(format!("split `{name}`: level {level} has too few distinct problems for {count}"))
                        .help(format!("{i} were found; ask for fewer"))
                })?;
                drawn.problem.split.clone_from(name);
                all.push(drawn);
            }
        }
    }
    Ok(all)
}

fn scripts<'a>(
    drawn: &[&'a Drawn],
    mistakes: f64,
    environment: &dyn Environment,
    generator: &dyn ProblemGenerator,
    chance: &Chance,
) -> (Vec<Script<'a>>, usize) {
    let mut with_mistake = 0;
    let script = |(i, drawn): (usize, &&'a Drawn)| {
        let own = chance.child("demonstration", &[i as u64]);
        let made = |mistakes| generator.demonstration(drawn.problem.level, drawn.index, &drawn.chance, mistakes, &own);
        let mut demonstration = made(mistakes);
        // A mistake takes turns of its own.
        if demonstration.mistaken && demonstration.turns.len() > environment.max_turns() as usize {
            demonstration = made(0.0);
        }
        with_mistake += usize::from(demonstration.mistaken);
        let id = format!("{}-demonstration", drawn.problem.id);
        Script { id, problem: &drawn.problem, turns: demonstration.turns, seed: i as u64 }
    };
    let scripts = drawn.iter().enumerate().map(script).collect();
    (scripts, with_mistake)
}

/// No call of a generator is long, so the machine was busy.
fn late(script: &Script<'_>) -> Error {
    Error::retryable(format!("a tool call of demonstration `{}` ran into its time limit", script.id))
        .help("give the machine less to do, or raise `limits.time_millis` of the environment")
}

/// The tool and the generator disagree: one of them has a bug, or a limit is too low.
fn wrong(script: &Script<'_>, answer: Option<&str>) -> Error {
    Error::bug(format!(
        "demonstration `{}` gives {}, the generator says `{}`",
        script.id,
        answer.map_or("no answer".into(), |a| format!("`{a}`")),
        script.problem.answer
    ))
    .help("if the environment limits turns or output strictly, raise its limits")
}

fn report(problems: &[Problem], plural: &str) -> Report {
    let mut counts: BTreeMap<(&str, u32), u64> = BTreeMap::new();
    for problem in problems {
        *counts.entry((&problem.split, problem.level)).or_insert(0) += 1;
    }
    let splits: BTreeSet<&str> = counts.keys().map(|(s, _)| *s).collect();
    let levels: BTreeSet<u32> = counts.keys().map(|(_, l)| *l).collect();
    let mut report = Report::new("Problems and demonstrations");
    report.summary = format!("{} distinct {plural} in {} splits.", problems.len(), splits.len());
    let heads = std::iter::once("split".to_string())
        .chain(levels.iter().map(|l| format!("level {l}")))
        .chain(["all".to_string()]);
    let mut table = Table::new("Problems by split and level", heads);
    for split in splits {
        let row: Vec<u64> = levels.iter().map(|l| counts.get(&(split, *l)).copied().unwrap_or(0)).collect();
        let all = row.iter().sum::<u64>() as f64;
        report.metric(format!("problems_{split}"), all);
        table.row(
            std::iter::once(Cell::text(split))
                .chain(row.iter().map(|n| Cell::Number(*n as f64)))
                .chain([Cell::Number(all)]),
        );
    }
    report.table(table);
    report.note("No canonical problem stands in two splits. Coverage counts word 8-grams of test questions that occur in demonstrations or in questions of split `rl`.");
    report
}
