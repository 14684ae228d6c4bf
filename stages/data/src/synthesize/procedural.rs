//! Implements the method `procedural`: problems from an environment's generator in disjoint splits, and demonstrations
//! of one split.
//!
//! Each split draws from its own random stream and skips canonical forms that earlier problems have. The generator
//! scripts the turns of a demonstration, and the turns are played in the environment. Every result is therefore the
//! tool's own, and the answer must be the generator's.

use super::config::SynthesisConfig;
use super::coverage::coverage;
use super::distinct::DistinctProblems;
use super::method::{SynthesisContext, SynthesisMethod, SynthesisOutput};
use super::metrics;
use super::play::{EpisodeScript, play};
use super::splits::Split;
use crate::hash::xxh64;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_api::StageReport;
use trainyard_api::report::{ReportCell, Table};
use trainyard_core::{Chance, Error, MetricInfo, OptionProblem, Result};
use trainyard_envs::Environment;
use trainyard_envs::environments::{self, Environments, ProblemGenerator, word_problems};
use trainyard_tables::{Problem, Trajectory};

/// The split whose problems are demonstrated.
pub(super) const DEMONSTRATIONS: &str = "demonstrations";
/// The split for RL.
const PRACTICE: &str = "rl";
/// The split for which coverage is measured.
const TEST: &str = "test";
/// A level counts as exhausted after twenty draws per wanted problem plus this many.
const MOST_MISSES: u64 = 1_000;

pub struct Procedural;

impl SynthesisMethod for Procedural {
    fn name(&self) -> &'static str {
        "procedural"
    }
    fn summary(&self) -> &'static str {
        "new problems and demonstrations of an environment's generator"
    }
    fn metrics(&self) -> Vec<MetricInfo> {
        metrics::procedural(["<split>"])
    }
    fn declared(&self, config: &SynthesisConfig) -> Vec<MetricInfo> {
        metrics::procedural(config.splits.keys().map(String::as_str))
    }
    fn environment(&self) -> Value {
        word_problems::default_options()
    }
    fn check(
        &self,
        config: &SynthesisConfig,
        environment: Option<&dyn Environment>,
        known: &Environments,
    ) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        // An environment that cannot be built is reported elsewhere; check the rest anyway.
        let generator = environment.and_then(|e| e.generator());
        if let (Some(environment), None) = (environment, generator) {
            let help = format!("method `procedural` works with: {}", environments::generating(known).join(", "));
            let problem = OptionProblem::new("/environment/kind", no_generator(environment.kind()).message);
            problems.push(problem.help(help));
        }
        let max_level = generator.map_or(u32::MAX, ProblemGenerator::max_level);
        problems.extend(Split::check_all(&config.splits, max_level, DEMONSTRATIONS));
        if !(0.0..=1.0).contains(&config.mistakes) {
            problems.push(
                OptionProblem::new("/mistakes", format!("{} is not a share", config.mistakes))
                    .help("use a number from 0 to 1"),
            );
        }
        problems
    }
    fn make(
        &self,
        config: &SynthesisConfig,
        given: Vec<Problem>,
        world: &SynthesisContext<'_>,
    ) -> Result<SynthesisOutput> {
        let SynthesisContext { environment, progress, .. } = *world;
        if !given.is_empty() {
            return Err(Error::invalid("method `procedural` generates its own problems")
                .help("leave input `problems` out, or use method `annotated`"));
        }
        let generator = environment.generator().ok_or_else(|| no_generator(environment.kind()))?;
        let chance = Chance::new(config.seed);
        let drawn = draw_all(&config.splits, generator, &chance)?;
        let demonstrated: Vec<&DrawnProblem> = drawn.iter().filter(|d| d.problem.split == DEMONSTRATIONS).collect();
        let (scripts, with_mistake) = scripts(&demonstrated, config.mistakes, environment, generator, &chance);
        let played = play(environment, &scripts, |done| progress(done, scripts.len()))?;
        let mut demonstrations = Vec::with_capacity(played.len());
        for (played, script) in played.into_iter().zip(&scripts) {
            if played.timed_out {
                return Err(time_limit_error(script));
            }
            if played.trajectory.reward < 1.0 || played.turns < script.turns.len() {
                return Err(mismatch_error(script, played.trajectory.answer.as_deref()));
            }
            demonstrations.push(played.trajectory);
        }
        let problems: Vec<Problem> = drawn.into_iter().map(|d| d.problem).collect();
        let mut report = summary(&problems, &demonstrations, generator.plural());
        report.metric("demonstrations_with_mistake", with_mistake as f64);
        Ok(SynthesisOutput { problems, demonstrations, report })
    }
}

fn no_generator(kind: &str) -> Error {
    Error::invalid(format!("environment `{kind}` generates no problems"))
        .help("choose an environment that does: `trainyard stages environments` lists them")
}

/// A problem with the index and the random source of its draw.
struct DrawnProblem {
    problem: Problem,
    index: u64,
    chance: Chance,
}

/// Draws all splits, the smallest first, and returns the problems in order of split, level and number. No canonical
/// form occurs twice. Errors: invalid, if a level has too few distinct problems.
fn draw_all(
    splits: &BTreeMap<String, Split>,
    generator: &dyn ProblemGenerator,
    chance: &Chance,
) -> Result<Vec<DrawnProblem>> {
    let mut distinct = DistinctProblems::default();
    let mut all: BTreeMap<&String, Vec<DrawnProblem>> = BTreeMap::new();
    let size = |split: &Split| split.counts(generator.max_level()).values().sum::<u64>();
    let mut order: Vec<(&String, &Split)> = splits.iter().collect();
    order.sort_by_key(|(name, split)| (size(split), *name));
    for (name, split) in order {
        let problems = all.entry(name).or_default();
        // A split keeps its draws when another one is added, except for problems that the other one has, too.
        let chance = chance.child("split", &[xxh64(name.as_bytes(), 0)]);
        for (level, count) in split.counts(generator.max_level()) {
            let max_draws = count.saturating_mul(20) + MOST_MISSES;
            let mut level_draws = distinct.level(name, level);
            let mut draws = (0..max_draws).map(|index| DrawnProblem {
                problem: generator.problem(level, index, &chance),
                index,
                chance,
            });
            for i in 0..count {
                let found = draws.find(|drawn| level_draws.add(&drawn.problem.canonical));
                let mut drawn = found.ok_or_else(|| level_draws.too_few(i, (count, max_draws), ""))?;
                drawn.problem.split.clone_from(name);
                problems.push(drawn);
            }
        }
    }
    Ok(all.into_values().flatten().collect())
}

fn scripts<'a>(
    drawn: &[&'a DrawnProblem],
    mistakes: f64,
    environment: &dyn Environment,
    generator: &dyn ProblemGenerator,
    chance: &Chance,
) -> (Vec<EpisodeScript<'a>>, usize) {
    let mut with_mistake = 0;
    let script = |(i, drawn): (usize, &&'a DrawnProblem)| {
        let draws = chance.child("demonstration", &[i as u64]);
        let demonstrate =
            |mistakes| generator.demonstration(drawn.problem.level, drawn.index, &drawn.chance, mistakes, &draws);
        let mut demonstration = demonstrate(mistakes);
        // A mistake takes extra turns.
        if demonstration.mistaken && demonstration.turns.len() > environment.max_turns() as usize {
            demonstration = demonstrate(0.0);
        }
        with_mistake += usize::from(demonstration.mistaken);
        let id = format!("{}-demonstration", drawn.problem.id);
        EpisodeScript { id, problem: &drawn.problem, turns: demonstration.turns, seed: i as u64 }
    };
    let scripts = drawn.iter().enumerate().map(script).collect();
    (scripts, with_mistake)
}

/// Returns the error of a call that hit its time limit. Generators make no long calls, so the machine was busy.
fn time_limit_error(script: &EpisodeScript<'_>) -> Error {
    Error::retryable(format!("a tool call of demonstration `{}` hit its time limit", script.id))
        .help("reduce the load of the machine, or raise the environment's `limits.time_millis`")
}

/// Returns the error of a disagreement between tool and generator: one of them has a bug, or a limit is too low.
fn mismatch_error(script: &EpisodeScript<'_>, answer: Option<&str>) -> Error {
    Error::bug(format!(
        "demonstration `{}` gives {}, the generator expects `{}`",
        script.id,
        answer.map_or("no answer".into(), |a| format!("`{a}`")),
        script.problem.answer
    ))
    .help("if the environment limits turns or output strictly, raise its limits")
}

/// Returns the report with the numbers of problems by split and level, and the coverage of the split `test` by
/// demonstrations and the split `rl`.
pub(super) fn summary(problems: &[Problem], demonstrations: &[Trajectory], plural: &str) -> StageReport {
    let mut report = report(problems, plural);
    // The model learns from demonstrations, and from the questions of the RL problems.
    let shown = demonstrations.iter().flat_map(|t| &t.messages).map(|m| m.content.as_str());
    let practiced = problems.iter().filter(|p| p.split == PRACTICE).map(Problem::question);
    let covered = coverage(problems.iter().filter(|p| p.split == TEST), shown.chain(practiced));
    report.metric("ngram_coverage", covered.grams).metric("ngram_covered_problems", covered.questions);
    report
}

fn report(problems: &[Problem], plural: &str) -> StageReport {
    let mut counts: BTreeMap<(&str, u32), u64> = BTreeMap::new();
    for problem in problems {
        *counts.entry((&problem.split, problem.level)).or_insert(0) += 1;
    }
    let splits: BTreeSet<&str> = counts.keys().map(|(s, _)| *s).collect();
    let levels: BTreeSet<u32> = counts.keys().map(|(_, l)| *l).collect();
    let mut report = StageReport::new("Problems and demonstrations");
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
            std::iter::once(ReportCell::text(split))
                .chain(row.iter().map(|n| ReportCell::Number(*n as f64)))
                .chain([ReportCell::Number(all)]),
        );
    }
    report.table(table);
    report.note(
        "No canonical problem is in two splits. Coverage counts word 8-grams of test questions that occur in \
         demonstrations or in questions of split `rl`.",
    );
    report
}
