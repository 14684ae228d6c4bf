//! Implements the stage `data/select`, which selects problems by split, level, half, expression, overlap with an
//! evaluation set, and number.
//!
//! Later stages (rl, prm, evaluate) take one table of problems and have no selection options, so their input is an
//! artifact with a digest. Training problems are decontaminated by the same rule as demonstrations.

use crate::facts;
use crate::filter::rules::decontaminate::Decontaminate;
use crate::identity::{Half, half_of};
use crate::io;
use crate::row_expression::{self, RowTable};
use crate::row_mask::row_mask;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use trainyard_api::stage::refuse;
use trainyard_api::{Ports, PreparedOptions, Stage, StageContext, port};
use trainyard_core::{
    ArtifactKind, Cardinality, DeclaredMetrics, Error, Facts, MetricInfo, OptionProblem, Producers, Result, WiredInputs,
};
use trainyard_tables::Problem;

/// Options of `data/select`. A row must pass all of them; `per_level` and `limit` come last, in this order.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SelectConfig {
    /// Keep the problems of these splits.
    #[schemars(length(min = 1))]
    pub splits: Option<Vec<String>>,
    /// Keep the problems of these levels.
    #[schemars(length(min = 1))]
    pub levels: Option<Vec<u32>>,
    /// Keep one half of the problems, by the first bit of the SHA-256 of the question: 0 is `a`, 1 is `b`.
    pub half: Option<Half>,
    /// A SQL expression over the columns of the problems: id, answer, environment, level, source, split, canonical, ….
    pub r#where: Option<String>,
    /// Keep only problems that overlap none of the input `evaluation`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decontaminate: Option<Decontaminate>,
    /// Keep at most this many problems of each level, the first ones.
    #[schemars(range(min = 1))]
    pub per_level: Option<u64>,
    /// Keep at most this many problems, the first ones.
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
}

pub struct SelectStage;

impl Stage for SelectStage {
    type Prepared = SelectConfig;
    const NAME: &'static str = "data/select";
    const VERSION: u32 = 2;
    const SUMMARY: &'static str = "Select problems by split, level, half, expression, overlap and number.";
    const DOC: &'static str = "Passes on the problems that meet every option, unchanged and in order. `half` is the \
        first bit of the SHA-256 of the question (0 is `a`), so a test split can be halved the same way everywhere. \
        `decontaminate` is the rule of `data/filter` applied to problems: each problem and its worked solution are \
        compared with the input `evaluation`. An empty selection is an error that names the option that left nothing.";
    const EXAMPLE: &'static str =
        r#"{"problems": "${{ stages.problems.problems }}", "splits": ["test"], "levels": [1, 2, 3], "limit": 300}"#;
    const MAIN_METRIC: Option<&'static str> = Some("problems");

    fn metrics(&self) -> DeclaredMetrics {
        vec![
            MetricInfo::new("problems", "rows", "Problems that were selected."),
            MetricInfo::new("problems_level_<int>", "rows", "Selected problems of this level."),
            MetricInfo::new("rejected_decontaminate", "rows", "Problems that overlap the evaluation problems.")
                .optional(),
        ]
        .into()
    }
    fn declared_metrics(&self, config: &SelectConfig, _: &Producers) -> DeclaredMetrics {
        let mut declared = self.metrics();
        declared.metrics.retain(|m| !m.optional || config.decontaminate.is_some());
        declared.metrics.iter_mut().for_each(|m| m.optional = false);
        declared
    }
    fn ports(&self) -> Ports {
        Ports {
            inputs: vec![
                port("problems", ArtifactKind::Problems, Cardinality::Many, "Problems to select from."),
                port(
                    "evaluation",
                    ArtifactKind::Problems,
                    Cardinality::Many,
                    "Evaluation problems that no selected one may overlap (`decontaminate`).",
                ),
            ],
            outputs: vec![port("problems", ArtifactKind::Problems, Cardinality::One, "The selected problems.")],
        }
    }

    fn prepare(&self, options: Value) -> Result<SelectConfig> {
        self.parse(options)
    }

    fn run(&self, config: SelectConfig, context: &mut StageContext) -> Result<()> {
        // A list that was unknown before the run is first checked here.
        refuse(config.problems_with(&context.wired()))?;
        let problems = io::read_many_problems(context.many("problems"))?;
        let evaluation = io::read_many_problems(context.many("evaluation"))?;
        let SelectedProblems { problems: selected, overlapping } =
            select(problems, &evaluation, &config, &context.scratch)?;
        let mut levels: BTreeMap<u32, usize> = BTreeMap::new();
        for problem in &selected {
            *levels.entry(problem.level).or_insert(0) += 1;
        }
        if config.decontaminate.is_some() {
            context.metric("rejected_decontaminate", overlapping as f64);
        }
        context.metric("problems", selected.len() as f64);
        for (level, n) in levels {
            context.metric(format!("problems_level_{level}"), n as f64);
        }
        io::write_problems(&context.output_parquet("problems")?, &selected)
    }
}

impl PreparedOptions for SelectConfig {
    type Config = Self;
    fn config(&self) -> &Self {
        self
    }
    fn problems(&self) -> Vec<OptionProblem> {
        let config = self;
        let mut problems = Vec::new();
        for (name, zero) in [("per_level", config.per_level == Some(0)), ("limit", config.limit == Some(0))] {
            if zero {
                problems
                    .push(OptionProblem::new(format!("/{name}"), "0 selects no problems").help("leave it out for all"));
            }
        }
        for (name, empty) in [
            ("splits", config.splits.as_ref().is_some_and(Vec::is_empty)),
            ("levels", config.levels.as_ref().is_some_and(Vec::is_empty)),
        ] {
            if empty {
                problems.push(
                    OptionProblem::new(format!("/{name}"), "an empty list selects nothing")
                        .help("leave it out for all"),
                );
            }
        }
        let fault = config.decontaminate.as_ref().and_then(Decontaminate::fault);
        problems.extend(fault.map(|fault| OptionProblem::new("/decontaminate", fault)));
        let expression = config.r#where.iter();
        problems.extend(expression.flat_map(|text| row_expression::problems(RowTable::Problems, "/where", text)));
        problems
    }

    fn warnings_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let warnings = |text| row_expression::warnings(RowTable::Problems, "/where", text, inputs, "problems");
        self.r#where.as_deref().map(warnings).unwrap_or_default()
    }

    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let config = self;
        let evaluation = inputs.get("evaluation").is_some_and(|n| *n > 0);
        match (&config.decontaminate, evaluation) {
            (Some(_), false) => {
                let problem = OptionProblem::new("/decontaminate", "no evaluation problems to decontaminate against");
                vec![problem.help("wire the input `evaluation`")]
            }
            (None, true) => {
                let problem = OptionProblem::new("/evaluation", "the input `evaluation` is wired but not used");
                vec![problem.help("set `decontaminate`, for example to `{methods: [canonical, ngram_13]}`")]
            }
            _ => Vec::new(),
        }
    }

    fn facts(&self, inputs: &WiredInputs) -> BTreeMap<String, Facts> {
        facts::of_rows(inputs, "problems", ["problems"])
    }
}

/// The result of a selection.
#[derive(Debug, Clone, Default)]
pub struct SelectedProblems {
    /// Selected problems.
    pub problems: Vec<Problem>,
    /// Number of problems that `decontaminate` removed from those that the options before it left.
    pub overlapping: usize,
}

/// Applies the options one after another. `scratch` is a folder for a temporary file. Errors: data, naming the option
/// that left no row.
pub fn select(
    mut problems: Vec<Problem>,
    evaluation: &[Problem],
    config: &SelectConfig,
    scratch: &Path,
) -> Result<SelectedProblems> {
    let before = summary(&problems);
    let check = |problems: &[Problem], option: &str| {
        if problems.is_empty() {
            Err(Error::data(format!("no problems are left after `{option}`")).help(format!("the input has {before}")))
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
        let rows: Vec<&Problem> = problems.iter().collect();
        let mut mask = row_mask(&rows, expression, scratch)?.into_iter();
        problems.retain(|_| mask.next().unwrap_or(false));
        check(&problems, "where")?;
    }
    let before_overlap = problems.len();
    if let Some(decontaminate) = &config.decontaminate {
        let mut overlaps = decontaminate.overlapping(&problems, evaluation)?.into_iter();
        problems.retain(|_| !overlaps.next().unwrap_or(true));
        check(&problems, "decontaminate")?;
    }
    let overlapping = before_overlap - problems.len();
    if let Some(per_level) = config.per_level {
        let mut seen: BTreeMap<u32, u64> = BTreeMap::new();
        problems.retain(|p| {
            let n = seen.entry(p.level).or_insert(0);
            *n += 1;
            *n <= per_level
        });
    }
    problems.truncate(config.limit.map_or(usize::MAX, |n| n as usize));
    Ok(SelectedProblems { problems, overlapping })
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
    use crate::facts::ENVIRONMENT;
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

    fn ids(config: SelectConfig) -> Vec<String> {
        select(problems(), &[], &config, &std::env::temp_dir()).unwrap().problems.into_iter().map(|p| p.id).collect()
    }

    #[test]
    fn options_are_combined_by_and() {
        assert_eq!(
            ids(SelectConfig {
                splits: Some(vec!["test".into()]),
                levels: Some(vec![1, 2]),
                ..SelectConfig::default()
            }),
            ["p6", "p7", "p9", "p10"]
        );
        assert_eq!(ids(SelectConfig { per_level: Some(1), ..SelectConfig::default() }), ["p0", "p1", "p2"]);
        assert_eq!(
            ids(SelectConfig { limit: Some(2), splits: Some(vec!["test".into()]), ..SelectConfig::default() }),
            ["p6", "p7"]
        );
    }

    #[test]
    fn output_environment_is_known_if_all_inputs_agree() {
        let of = |kind: &str| Facts::from([(ENVIRONMENT.to_string(), serde_json::json!(kind))]);
        let known = |problems: Vec<Facts>| {
            let mut inputs = WiredInputs::default();
            inputs.wire("problems", problems);
            SelectConfig::default().facts(&inputs)["problems"].get(ENVIRONMENT).cloned()
        };
        assert_eq!(known(vec![of("countdown"), of("countdown")]), Some(serde_json::json!("countdown")));
        assert_eq!((known(vec![of("countdown"), of("x")]), known(vec![of("countdown"), Facts::new()])), (None, None));
    }

    #[test]
    fn halves_partition_the_problems() {
        let half = |h| ids(SelectConfig { half: Some(h), ..SelectConfig::default() });
        let mut all = [half(Half::A), half(Half::B)].concat();
        all.sort_by_key(|id| id[1..].parse::<u32>().unwrap());
        assert_eq!(all, ids(SelectConfig::default()));
    }

    #[test]
    fn empty_selection_names_the_option() {
        let nowhere = SelectConfig { splits: Some(vec!["prm".into()]), ..SelectConfig::default() };
        let e = select(problems(), &[], &nowhere, &std::env::temp_dir()).unwrap_err();
        assert!(e.message.contains("`splits`") && e.help.unwrap().contains("rl, test"));
    }

    #[test]
    fn problems_that_overlap_evaluation_problems_are_left_out() {
        let shared = "each of the twelve hens of the old farmer lays five eggs in one week of this long summer";
        let mut problems = problems();
        problems[2].messages[0].content = format!("Yesterday he said: {shared}.");
        problems[4].reference = Some(format!("Since {shared} <<12*5=60>>60."));
        problems[5].messages[0].content = "How MANY are left?".into();
        let problem = |id: &str, text: &str| Problem {
            id: id.into(),
            messages: vec![Message::new("user", text)],
            ..Problem::default()
        };
        let evaluation = [problem("t1", shared), problem("t2", "how many are left")];
        let config = |methods: &str| -> SelectConfig {
            serde_json::from_value(serde_json::json!({"splits": ["rl"], "decontaminate": {"methods": [methods]}}))
                .unwrap()
        };
        let remaining = |methods: &str| {
            let selected = select(problems.clone(), &evaluation, &config(methods), &std::env::temp_dir()).unwrap();
            (selected.problems.into_iter().map(|p| p.id).collect::<Vec<_>>(), selected.overlapping)
        };
        assert_eq!(remaining("ngram_13"), (["p0", "p1", "p3", "p5"].map(String::from).to_vec(), 2));
        assert_eq!(remaining("canonical"), (["p0", "p1", "p2", "p3", "p4"].map(String::from).to_vec(), 1));
        assert!(
            select(problems.clone(), &[], &config("canonical"), &std::env::temp_dir()).is_err(),
            "no clean result without a comparison"
        );
    }

    #[test]
    fn evaluation_and_decontaminate_require_each_other() {
        let config = |text: &str| serde_json::from_str::<SelectConfig>(text).unwrap();
        let pointers = |config: &SelectConfig, evaluation: usize| {
            let wired = WiredInputs::from([("problems".to_string(), 1), ("evaluation".to_string(), evaluation)]);
            PreparedOptions::problems_with(config, &wired).into_iter().map(|p| p.pointer).collect::<Vec<_>>()
        };
        let clean = config(r#"{"decontaminate": {"methods": ["canonical"]}}"#);
        assert_eq!((pointers(&clean, 0), pointers(&clean, 1)), (vec!["/decontaminate".to_string()], vec![]));
        assert_eq!(
            (pointers(&SelectConfig::default(), 0), pointers(&SelectConfig::default(), 1)),
            (vec![], vec!["/evaluation".to_string()])
        );
        let faults = PreparedOptions::problems(&config(r#"{"decontaminate": {"methods": []}}"#));
        assert_eq!(faults.iter().map(|p| p.pointer.as_str()).collect::<Vec<_>>(), ["/decontaminate"]);
        // Configs without the option keep their JSON and so their digest.
        assert!(serde_json::to_value(SelectConfig::default()).unwrap().get("decontaminate").is_none());
    }
}
