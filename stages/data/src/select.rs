//! Stage `data/select`: pass on some problems, by split, level, half, expression and number.
//!
//! Why so: the stages that follow (rl, prm, evaluate) take one table of problems and no selection options of their own, so what
//! they saw is an artifact with a digest. Rows are passed on unchanged and in order. Refuses: an empty result.

use crate::identity::{Half, half_of};
use crate::io;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use trainyard_api::stage::Ports;
use trainyard_api::{Stage, StageContext, port};
use trainyard_core::{ArtifactKind, Cardinality, Error, OptionProblem, Result};
use trainyard_tables::Problem;

/// Options of `data/select`. A row must pass all of them; `per_level` and `limit` come last, in this order.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Keep the problems of these splits.
    #[schemars(length(min = 1))]
    pub splits: Option<Vec<String>>,
    /// Keep the problems of these levels.
    #[schemars(length(min = 1))]
    pub levels: Option<Vec<u32>>,
    /// Keep one half, by the first bit of the SHA-256 of the question: 0 is `a`, 1 is `b`.
    pub half: Option<Half>,
    /// A SQL expression over the columns of the problems: id, answer, environment, level, source, split, canonical, ….
    pub r#where: Option<String>,
    /// Keep at most this many problems of each level, the first ones.
    #[schemars(range(min = 1))]
    pub per_level: Option<u64>,
    /// Keep at most this many problems, the first ones.
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
}

/// The stage kind `data/select`.
pub struct Select;

impl Stage for Select {
    type Config = Config;
    const NAME: &'static str = "data/select";
    const SUMMARY: &'static str = "Select problems by split, level, half, expression and number.";
    const DOC: &'static str = "Passes on the problems that meet every option, unchanged and in order. `half` is the first bit of the SHA-256 of the \
        question (0 is `a`), so that a test split can be halved the same way everywhere. An empty selection is an error that says \
        which option left nothing.";
    const EXAMPLE: &'static str =
        r#"{"problems": "${{ stages.problems.problems }}", "splits": ["test"], "levels": [1, 2, 3], "limit": 300}"#;
    const MAIN_METRIC: Option<&'static str> = Some("problems");
    const METRICS: &'static [&'static str] = &["problems", "problems_level_*"];

    fn ports() -> Ports {
        Ports {
            inputs: vec![port("problems", ArtifactKind::Problems, Cardinality::Many, "What to select from.")],
            outputs: vec![port("problems", ArtifactKind::Problems, Cardinality::One, "The selected problems.")],
        }
    }

    fn check(config: &Config) -> Vec<OptionProblem> {
        let mut problems = Vec::new();
        for (name, zero) in [("per_level", config.per_level == Some(0)), ("limit", config.limit == Some(0))] {
            if zero {
                problems.push(OptionProblem::new(format!("/{name}"), "0 problems are nothing to select").help("leave it out for all"));
            }
        }
        for (name, empty) in
            [("splits", config.splits.as_ref().is_some_and(Vec::is_empty)), ("levels", config.levels.as_ref().is_some_and(Vec::is_empty))]
        {
            if empty {
                problems.push(OptionProblem::new(format!("/{name}"), "an empty list selects nothing").help("leave it out for all"));
            }
        }
        problems
    }

    fn run(config: Config, context: &mut StageContext) -> Result<()> {
        let problems = io::read_many_problems(context.many("problems"))?;
        let selected = select(problems, &config, &context.scratch)?;
        let mut levels: BTreeMap<u32, usize> = BTreeMap::new();
        for problem in &selected {
            *levels.entry(problem.level).or_insert(0) += 1;
        }
        context.metric("problems", selected.len() as f64);
        for (level, n) in levels {
            context.metric(format!("problems_level_{level}"), n as f64);
        }
        io::write_problems(&context.output_parquet("problems")?, &selected)
    }
}

/// Applies the options one after the other; `scratch` is a folder for a temporary file. An error of kind data names the one that left nothing.
pub fn select(mut problems: Vec<Problem>, config: &Config, scratch: &Path) -> Result<Vec<Problem>> {
    let before = summary(&problems);
    let check = |problems: &[Problem], option: &str| {
        if problems.is_empty() {
            Err(Error::data(format!("no problem is left after `{option}`")).help(format!("the input has {before}")))
        } else {
            Ok(())
        }
    };
    check(&problems, "problems")?;
    if let Some(splits) = &config.splits {
        problems.retain(|p| splits.contains(&p.split));
        check(&problems, "splits")?;
    }
    if let Some(levels) = &config.levels {
        problems.retain(|p| levels.contains(&p.level));
        check(&problems, "levels")?;
    }
    if let Some(half) = config.half {
        problems.retain(|p| half_of(p.question()) == half);
        check(&problems, "half")?;
    }
    if let Some(expression) = &config.r#where {
        let mut mask = io::problem_mask(&problems, expression, scratch)?.into_iter();
        problems.retain(|_| mask.next().unwrap_or(false));
        check(&problems, "where")?;
    }
    if let Some(most) = config.per_level {
        let mut seen: BTreeMap<u32, u64> = BTreeMap::new();
        problems.retain(|p| {
            let n = seen.entry(p.level).or_insert(0);
            *n += 1;
            *n <= most
        });
    }
    problems.truncate(config.limit.map_or(usize::MAX, |n| n as usize));
    Ok(problems)
}

fn summary(problems: &[Problem]) -> String {
    let splits: BTreeSet<&str> = problems.iter().map(|p| p.split.as_str()).collect();
    let levels: BTreeSet<String> = problems.iter().map(|p| p.level.to_string()).collect();
    let join = |items: Vec<&str>| items.join(", ");
    format!(
        "{} problems, splits {}; levels {}",
        problems.len(),
        join(splits.into_iter().collect()),
        join(levels.iter().map(String::as_str).collect())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_tables::Message;

    fn problems() -> Vec<Problem> {
        (0..12)
            .map(|i| Problem {
                id: format!("p{i}"),
                messages: vec![Message::new("user", format!("question {i}"))],
                level: i % 3 + 1,
                split: if i < 6 { "rl" } else { "test" }.into(),
                ..Problem::default()
            })
            .collect()
    }

    fn ids(config: Config) -> Vec<String> {
        select(problems(), &config, &std::env::temp_dir()).unwrap().into_iter().map(|p| p.id).collect()
    }

    #[test]
    fn options_are_joined_by_and() {
        assert_eq!(
            ids(Config { splits: Some(vec!["test".into()]), levels: Some(vec![1, 2]), ..Config::default() }),
            ["p6", "p7", "p9", "p10"]
        );
        assert_eq!(ids(Config { per_level: Some(1), ..Config::default() }), ["p0", "p1", "p2"]);
        assert_eq!(ids(Config { limit: Some(2), splits: Some(vec!["test".into()]), ..Config::default() }), ["p6", "p7"]);
    }

    #[test]
    fn halves_part_the_whole() {
        let half = |h| ids(Config { half: Some(h), ..Config::default() });
        let mut all = [half(Half::A), half(Half::B)].concat();
        all.sort_by_key(|id| id[1..].parse::<u32>().unwrap());
        assert_eq!(all, ids(Config::default()));
    }

    #[test]
    fn an_empty_selection_says_why() {
        let e = select(problems(), &Config { splits: Some(vec!["prm".into()]), ..Config::default() }, &std::env::temp_dir()).unwrap_err();
        assert!(e.message.contains("`splits`") && e.help.unwrap().contains("rl, test"));
    }
}
