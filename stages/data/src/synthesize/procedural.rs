//! Method `procedural`: word problems from templates in disjoint splits, and demonstrations of one of them.
//!
//! The generator of `word-problems` gives question, program, answer and canonical form. Each split draws from chance of its own;
//! a canonical form that an earlier problem has is passed over. The demonstrated agent sends the program to the tool and repeats
//! the result as its answer, so the answer is the tool's, not the generator's; the verifier then holds it against the
//! generator's. Refuses: levels that have too few distinct problems for what is asked.

use super::Config;
use super::coverage::coverage;
use super::method::{Method, Synthesized};
use super::mistakes::broken;
use super::play::{Script, Turn, play};
use super::splits::Split;
use crate::hash::xxh64;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_api::Report;
use trainyard_api::report::{Cell, Table};
use trainyard_core::{Chance, Error, OptionProblem, Result};
use trainyard_envs::environments::word_problems::generator::{GeneratedProblem, MAX_LEVEL, generate};
use trainyard_envs::{Environment, ToolCall};
use trainyard_tables::Problem;

/// The split that is demonstrated.
const DEMONSTRATIONS: &str = "demonstrations";
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
    fn environment(&self) -> Value {
        json!({"kind": "word-problems"})
    }
    fn check(&self, config: &Config) -> Vec<OptionProblem> {
        let mut problems: Vec<OptionProblem> =
            config.splits.iter().flat_map(|(name, split)| split.check(&format!("/splits/{name}"), MAX_LEVEL)).collect();
        if !config.splits.contains_key(DEMONSTRATIONS) {
            problems
                .push(OptionProblem::new("/splits", "no split `demonstrations`").help("give it the problems that are to be demonstrated"));
        }
        if !(0.0..=1.0).contains(&config.mistakes) {
            problems.push(OptionProblem::new("/mistakes", format!("{} is no share", config.mistakes)).help("a number from 0 to 1"));
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
            return Err(
                Error::invalid("method `procedural` makes its own problems").help("leave input `problems` out, or use method `annotated`")
            );
        }
        let chance = Chance::new(config.seed);
        let drawn = draw_all(&config.splits, environment.kind(), &chance)?;
        let demonstrated: Vec<&GeneratedProblem> = drawn.iter().filter(|g| g.problem.split == DEMONSTRATIONS).collect();
        let scripts = scripts(&demonstrated, config.mistakes, environment, &chance)?;
        let played = play(environment, &scripts, |done| progress(done, scripts.len()))?;
        let with_mistake = scripts.iter().filter(|s| s.turns.len() > 2).count();
        let mut demonstrations = Vec::with_capacity(played.len());
        for (played, script) in played.into_iter().zip(&scripts) {
            if played.trajectory.reward < 1.0 || played.turns < script.turns.len() {
                return Err(wrong(script, played.trajectory.answer.as_deref()));
            }
            demonstrations.push(played.trajectory);
        }
        let problems: Vec<Problem> = drawn.into_iter().map(|g| g.problem).collect();
        let mut report = report(&problems);
        report.metric("demonstrations_with_mistake", with_mistake as f64);
        let covered = coverage(problems.iter().filter(|p| p.split == TEST), &demonstrations);
        report.metric("ngram_coverage", covered.grams).metric("ngram_covered_problems", covered.questions);
        Ok(Synthesized { problems, demonstrations, report })
    }
}

/// All splits, in order of name, level and number; no canonical form occurs twice.
fn draw_all(splits: &BTreeMap<String, Split>, environment: &str, chance: &Chance) -> Result<Vec<GeneratedProblem>> {
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for (name, split) in splits {
        // A split keeps its draws when another one is added, but for problems that the other one has, too.
        let chance = chance.child("split", &[xxh64(name.as_bytes(), 0)]);
        for (level, count) in split.counts(MAX_LEVEL) {
            let mut fresh = (0..count.saturating_mul(20) + MOST_MISSES)
                .map(|index| generate(level, index, &chance))
                .filter(|g| seen.insert(g.problem.canonical.clone()));
            for i in 0..count {
                let mut drawn = fresh.next().ok_or_else(|| {
                    Error::invalid(format!("split `{name}`: level {level} has too few distinct problems for {count}"))
                        .help(format!("{i} were found; ask for fewer"))
                })?;
                drawn.problem.split.clone_from(name);
                drawn.problem.environment = environment.to_string();
                all.push(drawn);
            }
        }
    }
    Ok(all)
}

fn scripts<'a>(drawn: &[&'a GeneratedProblem], mistakes: f64, environment: &dyn Environment, chance: &Chance) -> Result<Vec<Script<'a>>> {
    let tool = super::annotated::tool(environment)?;
    let argument = tool
        .main_argument()
        .ok_or_else(|| Error::invalid(format!("tool `{}` takes no text", tool.name)).help("use `calculator` or `python`"))?;
    // A mistake takes a turn of its own.
    let mistakes = if environment.max_turns() > 2 { mistakes } else { 0.0 };
    let script = |(i, drawn): (usize, &&'a GeneratedProblem)| {
        let chance = chance.child("demonstration", &[i as u64]);
        let programs = if tool.name == "python" {
            drawn.demonstration(mistakes, &chance)
        } else {
            expressions(&drawn.expression(), mistakes, &chance)
        };
        let call = |code: String| {
            Turn::Say(environment.format().render(&ToolCall { name: tool.name.clone(), arguments: json!({argument: code}) }))
        };
        let turns = programs.into_iter().map(call).chain([Turn::RepeatResult]).collect();
        Script { id: format!("{}-demonstration", drawn.problem.id), problem: &drawn.problem, turns, seed: i as u64 }
    };
    Ok(drawn.iter().enumerate().map(script).collect())
}

/// What is sent to a tool without variables: the expression, or first a broken form of it.
fn expressions(expression: &str, mistakes: f64, chance: &Chance) -> Vec<String> {
    let mut draws = chance.at("mistake", &[]);
    let mistake = (draws.uniform() < mistakes).then(|| broken(expression, &mut draws));
    mistake.into_iter().chain([expression.to_string()]).collect()
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

fn report(problems: &[Problem]) -> Report {
    let mut counts: BTreeMap<(&str, u32), u64> = BTreeMap::new();
    for problem in problems {
        *counts.entry((&problem.split, problem.level)).or_insert(0) += 1;
    }
    let splits: BTreeSet<&str> = counts.keys().map(|(s, _)| *s).collect();
    let levels: BTreeSet<u32> = counts.keys().map(|(_, l)| *l).collect();
    let mut report = Report::new("Problems and demonstrations");
    report.summary = format!("{} distinct word problems in {} splits.", problems.len(), splits.len());
    let heads = std::iter::once("split".to_string()).chain(levels.iter().map(|l| format!("level {l}"))).chain(["all".to_string()]);
    let mut table = Table::new("Problems by split and level", heads);
    for split in splits {
        let row: Vec<u64> = levels.iter().map(|l| counts.get(&(split, *l)).copied().unwrap_or(0)).collect();
        let all = row.iter().sum::<u64>() as f64;
        report.metric(format!("problems_{split}"), all);
        table.row(std::iter::once(Cell::text(split)).chain(row.iter().map(|n| Cell::Number(*n as f64))).chain([Cell::Number(all)]));
    }
    report.table(table);
    report.note("No canonical problem (template, numbers, question) stands in two splits. Coverage counts word 8-grams of test questions that occur in demonstrations.");
    report
}
