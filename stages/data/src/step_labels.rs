//! Implements the stage `data/step_labels`, which converts graded solutions with calculator annotations to trajectories
//! with labeled steps. A process reward model can train on these steps.
//!
//! With a step scorer, user-defined code labels the turns of given trajectories instead (`scored`).
//!
//! A solution is played in the environment as in method `annotated` of `data/synthesize`. A step is one agent turn, and
//! turns are split after each tool call. A step that states an annotated calculation gets the label 0 if the executed
//! calculation gives another value; the last step gets the outcome; all other steps stay unlabeled (NaN). A calculation
//! that cannot be executed (`X*.25`) is counted separately and labels no step. A solution whose calculation hits its
//! time limit is dropped and counted.

pub mod annotated;
pub mod scored;

pub use annotated::{StepLabelCounts, label};

use crate::identity::{Half, half_of};
use crate::solutions::Solution;
use crate::step_scorers::StepScorer;
use crate::{io, solutions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_api::family::fill_schema;
use trainyard_api::report::{ReportCell, StageReport, Table};
use trainyard_api::{Family, Ports, PreparedOptions, Slot, Stage, StageContext, port};
use trainyard_core::{
    ArtifactKind, Cardinality, DeclaredMetrics, Error, MetricInfo, OptionProblem, Producers, Result, WiredInputs,
};
use trainyard_envs::ToolHost;
use trainyard_envs::environments::{self, EnvironmentSlot, math_problems};
use trainyard_tables::{Message, Problem, Trajectory};

/// Options of `data/step_labels`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StepLabelsConfig {
    /// The environment in which solutions are played; its first tool executes the calculations.
    #[schemars(extend("x-family" = "environments"))]
    pub environment: Value,
    /// Keep the solutions to one half of the problems, by the first bit of the SHA-256 of the question: 0 is `a`, 1 is
    /// `b`.
    pub half: Option<Half>,
    /// Keep at most this many problems, the first ones.
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
    /// Scorer of the agent's turns of the input `trajectories`, in place of annotations of the input `solutions`:
    /// `{kind: process, command: [python3, my_scorer.py]}`, `{kind: http, url: URL}`. Other options are then ignored.
    #[serde(skip_serializing_if = "Value::is_null")]
    #[schemars(extend("x-family" = "step_scorers"))]
    pub scorer: Value,
}

impl Default for StepLabelsConfig {
    fn default() -> Self {
        Self { environment: math_problems::default_options(), half: None, limit: None, scorer: Value::Null }
    }
}

pub struct StepLabelsStage {
    /// Supported scorers.
    pub scorers: Arc<Family<dyn StepScorer>>,
    /// Supported environments.
    pub envs: Arc<trainyard_envs::EnvironmentParts>,
}

fn metrics() -> Vec<MetricInfo> {
    let count = |name: &'static str, doc: &'static str| MetricInfo::new(name, "count", doc);
    vec![
        count("solutions", "Graded solutions."),
        count("problems", "Problems that they solve."),
        count("steps", "Steps of all solutions."),
        count("steps_labeled_calculation", "Steps with the label 0 for a calculation that does not hold."),
        count("steps_labeled_outcome", "Last steps, which have the outcome as label."),
        count("steps_unlabeled", "Steps without a label."),
        count("outcomes_correct", "Solutions that end right."),
        count("annotations", "Annotated calculations."),
        count("annotations_executed", "Annotated calculations that were executed."),
        count("annotations_agreeing", "Executed calculations that hold."),
        count("annotations_failing", "Executed calculations that do not hold."),
        count("annotations_not_executable", "Annotated calculations that cannot be executed."),
        count("dropped_time_limit", "Solutions that were dropped at the time limit."),
    ]
}

impl Stage for StepLabelsStage {
    type Prepared = PreparedLabels;
    const NAME: &'static str = "data/step_labels";
    const VERSION: u32 = 2;
    const SUMMARY: &'static str = "Label the steps of graded solutions by executing their annotated calculations.";
    const DOC: &'static str = include_str!("step_labels.md");
    const EXAMPLE: &'static str = r#"{"solutions": "${{ stages.solutions.solutions }}", "half": "a"}"#;
    const MAIN_METRIC: Option<&'static str> = Some("steps");

    const FAMILIES: &'static [&'static str] = &["environments", "formats", "step_scorers", "tools", "verifiers"];

    fn metrics(&self) -> DeclaredMetrics {
        let scored = scored::metrics();
        let new = scored.into_iter().filter(|metric| metrics().iter().all(|known| known.name != metric.name));
        metrics().into_iter().chain(new).collect::<Vec<_>>().into()
    }
    fn declared_metrics(&self, prepared: &PreparedLabels, _: &Producers) -> DeclaredMetrics {
        if prepared.scorer.is_some() { scored::metrics().into() } else { metrics().into() }
    }
    fn ports(&self) -> Ports {
        use Cardinality::{Many, One, Optional};
        Ports {
            inputs: vec![
                port(
                    "solutions",
                    ArtifactKind::Table,
                    Optional,
                    "Graded solutions, as from `data/import` with format gsm8k_solutions.",
                ),
                port("trajectories", ArtifactKind::Trajectories, Many, "With `scorer`: trajectories to label."),
                port("problems", ArtifactKind::Problems, Many, "With `scorer`: problems of the trajectories."),
            ],
            outputs: vec![
                port(
                    "trajectories",
                    ArtifactKind::Trajectories,
                    One,
                    "Solutions as trajectories; `step_labels` has one label per agent turn.",
                ),
                port("problems", ArtifactKind::Problems, One, "The problems that they solve."),
                port("report", ArtifactKind::Report, One, "Counts of labels."),
            ],
        }
    }

    fn schema(&self) -> Value {
        let mut schema = schemars::schema_for!(StepLabelsConfig).to_value();
        fill_schema(&mut schema, "environments", &self.envs.environments.schema());
        fill_schema(&mut schema, "step_scorers", &self.scorers.schema());
        schema
    }
    fn prepare(&self, mut options: Value) -> Result<PreparedLabels> {
        let known = &self.envs.environments;
        let environment = environments::read(known, &mut options, math_problems::default_options);
        let named = options.get("scorer").is_some_and(|scorer| !scorer.is_null());
        let scorer = named.then(|| Slot::read_at(&self.scorers, "/scorer", &mut options));
        Ok(PreparedLabels { config: self.parse(options)?, environment, scorer })
    }

    fn run(&self, prepared: PreparedLabels, context: &mut StageContext) -> Result<()> {
        let PreparedLabels { config, environment, scorer } = prepared;
        if let Some(scorer) = scorer {
            return scored::run(&*scorer.build(&())?, context);
        }
        let mut rows = solutions::read(&context.input("solutions")?.parquet())?;
        rows.retain(|s| config.half.is_none_or(|half| half_of(&s.question) == half));
        let host = ToolHost::of_stage(context)?;
        let environment = environment.build(&host)?;
        let mut problems = problems(&rows, environment.kind());
        problems.truncate(config.limit.map_or(usize::MAX, |n| n as usize));
        let by_id: BTreeMap<&str, &Problem> = problems.iter().map(|p| (p.id.as_str(), p)).collect();
        rows.retain(|s| by_id.contains_key(s.problem_id.as_str()));
        if rows.is_empty() {
            return Err(Error::data("no solutions are left to label").help("check `half` and `limit`"));
        }
        let total = rows.len() as u64;
        let progress = |done: usize| {
            context.progress(done as u64, total, "solutions", None);
            context.stop_if_cancelled()
        };
        let (trajectories, counts) = label(&rows, &by_id, environment.as_ref(), progress)?;
        host.report(context);
        publish(&trajectories, &problems, &counts, context)
    }
}

/// Options of `data/step_labels` with the environment that they name.
pub struct PreparedLabels {
    config: StepLabelsConfig,
    environment: EnvironmentSlot,
    scorer: Option<Slot<dyn StepScorer>>,
}

impl PreparedOptions for PreparedLabels {
    type Config = StepLabelsConfig;
    fn config(&self) -> &StepLabelsConfig {
        &self.config
    }
    fn problems(&self) -> Vec<OptionProblem> {
        let mut problems = self.environment.problems();
        problems.extend(self.scorer.iter().flat_map(Slot::problems));
        let unused = [("/half", self.config.half.is_some()), ("/limit", self.config.limit.is_some())];
        for (place, is_given) in unused {
            if is_given && self.scorer.is_some() {
                let problem = OptionProblem::new(place, "with a scorer all given trajectories are labeled");
                problems.push(problem.help("leave it out, and select rows by `data/filter` before"));
            }
        }
        problems
    }
    /// Requires the input `trajectories` with a scorer and `solutions` without one, and rejects the other.
    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        let is_wired = |port: &str| inputs.get(port).is_some_and(|count| *count > 0);
        let (required, unused, reason) = if self.scorer.is_some() {
            ("trajectories", "solutions", "a scorer labels trajectories")
        } else {
            ("solutions", "trajectories", "without a scorer, labels come from annotated solutions")
        };
        let mut problems = Vec::new();
        if !is_wired(required) {
            let problem = OptionProblem::new(format!("/{required}"), format!("input `{required}` is missing"));
            problems.push(problem.help(format!("{reason}: wire `{required}`")));
        }
        if is_wired(unused) {
            let problem = OptionProblem::new(format!("/{unused}"), format!("input `{unused}` is not used"));
            problems.push(problem.help(format!("{reason}: leave `{unused}` out")));
        }
        problems
    }
}

/// Returns one problem per question, in order of first appearance.
fn problems(rows: &[Solution], environment: &str) -> Vec<Problem> {
    let mut seen = std::collections::BTreeSet::new();
    rows.iter()
        .filter(|s| seen.insert(s.problem_id.as_str()))
        .map(|s| Problem {
            id: s.problem_id.clone(),
            messages: vec![Message::new("user", s.question.as_str())],
            answer: s.answer.clone(),
            verifier: "{}".into(),
            environment: environment.to_string(),
            source: "gsm8k_solutions".into(),
            split: s.split.clone(),
            canonical: crate::text::normal(&s.question),
            parents: s.parents.clone(),
            ..Problem::default()
        })
        .collect()
}

fn publish(
    trajectories: &[Trajectory],
    problems: &[Problem],
    counts: &StepLabelCounts,
    context: &mut StageContext,
) -> Result<()> {
    let metrics = [
        ("solutions", counts.solutions),
        ("problems", problems.len()),
        ("steps", counts.steps),
        ("steps_labeled_calculation", counts.labeled_calculation),
        ("steps_labeled_outcome", counts.labeled_outcome),
        ("steps_unlabeled", counts.unlabeled),
        ("outcomes_correct", counts.outcomes_correct),
        ("annotations", counts.annotations),
        ("annotations_executed", counts.executed),
        ("annotations_agreeing", counts.agreeing),
        ("annotations_failing", counts.failing),
        ("annotations_not_executable", counts.not_executable),
        ("dropped_time_limit", counts.dropped_time_limit),
    ];
    let mut report = StageReport::new("Step labels");
    report.summary = format!(
        "{} graded solutions of {} problems, cut into {} steps.",
        counts.solutions,
        problems.len(),
        counts.steps
    );
    let mut table = Table::new("Counts", ["what", "count"]);
    for (name, n) in metrics {
        context.metric(name, n as f64);
        report.metric(name, n as f64);
        table.row([ReportCell::text(name.replace('_', " ")), ReportCell::Number(n as f64)]);
    }
    report.table(table);
    report.note(
        "A step is one agent turn. Label 0: it states an annotated calculation that does not hold when executed.\n\
         The last step has the outcome. The others are unlabeled.",
    );
    context.write_report("report", report, &self::metrics().into())?;
    io::write_trajectories(&context.output_parquet("trajectories")?, trajectories)?;
    io::write_problems(&context.output_parquet("problems")?, problems)
}

#[cfg(test)]
mod tests;
