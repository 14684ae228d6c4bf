//! Implements the method `annotated`, which converts worked solutions with calculator annotations to tool-use
//! trajectories.
//!
//! A solution is split at its annotations: the text before an annotation and a tool call with its expression are one
//! turn; the text after it, which states the value, begins the next turn. Every call is executed, and its result is
//! compared with the author's number. A trajectory is dropped and counted if a call fails or does not terminate, if a
//! result disagrees, or if the episode ends early.

use super::config::SynthesisConfig;
use super::method::{SynthesisContext, SynthesisMethod, SynthesisOutput};
use super::metrics;
use super::play::{EpisodeScript, ScriptedResult, play};
use crate::annotation::{Calculation, agrees, python_form, segments};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use trainyard_api::StageReport;
use trainyard_api::report::{ReportCell, Table};
use trainyard_core::{Error, MetricInfo, OptionProblem, Result};
use trainyard_envs::environments::{Environments, ScriptedTurn, math_problems};
use trainyard_envs::tools::registry;
use trainyard_envs::{Environment, ToolCall, ToolSpec};
use trainyard_tables::{Problem, Trajectory};

/// A solution as turns; each turn but the last ends with a calculation.
pub struct SolutionTurns<'a> {
    pub turns: Vec<ScriptedTurn>,
    /// The calculations, in order.
    pub calculations: Vec<Calculation<'a>>,
}

/// Splits a solution into turns in the environment's tool-call format, with calls of `tool`.
pub fn convert<'a>(solution: &'a str, environment: &dyn Environment, tool: &ToolSpec) -> Result<SolutionTurns<'a>> {
    let argument = tool.main_argument().ok_or_else(|| {
        Error::invalid(format!("tool `{}` takes no text argument", tool.name)).help("use `calculator` or `python`")
    })?;
    let mut converted = SolutionTurns { turns: Vec::new(), calculations: Vec::new() };
    for segment in segments(solution) {
        match segment.calculation {
            Some(calculation) => {
                let call = ToolCall {
                    name: tool.name.clone(),
                    arguments: json!({argument: python_form(calculation.expression)}),
                };
                converted.turns.push(ScriptedTurn::Text(format!(
                    "{}{}",
                    segment.text,
                    environment.format().render(&call)
                )));
                converted.calculations.push(calculation);
            }
            None => converted.turns.push(ScriptedTurn::Text(segment.text)),
        }
    }
    Ok(converted)
}

/// Returns the tool that computes expressions: the environment's first tool. The tools of a program are known only when
/// the program makes a call, so a `calculator` is assumed. Errors: invalid, if the environment has no tools.
pub fn tool(environment: &dyn Environment) -> Result<ToolSpec> {
    let tools = if environment.prompts() { environment.tools() } else { registry::tool("calculator")?.specs() };
    tools.into_iter().next().ok_or_else(|| {
        Error::invalid("the environment has no tool for calculations")
            .help("give it `tools: [calculator]` or `tools: [python]`")
    })
}

/// Returns whether the result of each executed calculation agrees with its claim, or `None` if the call failed or one
/// of the two values is not a number.
pub fn agreements(trajectory: &Trajectory, calculations: &[Calculation<'_>]) -> Vec<Option<bool>> {
    let results = trajectory.messages.iter().filter(|m| m.role == "tool").map(|m| m.content.as_str());
    results.zip(calculations).map(|(result, calculation)| agrees(result, calculation.claim)).collect()
}

/// The result for all solutions.
#[derive(Debug, Clone, Default)]
pub struct AnnotatedOutput {
    /// Trajectories of the solutions whose calculations all hold.
    pub trajectories: Vec<Trajectory>,
    /// Number of executed calls.
    pub executed: usize,
    /// Number of executed calls whose result is the claimed number within 1e-6.
    pub agreeing: usize,
    /// Dropped solutions by reason.
    pub dropped: BTreeMap<&'static str, usize>,
    /// The first 20 calls whose result is not the claimed number: (problem, expression, claim).
    pub disagreements: Vec<(String, String, String)>,
}

/// Plays all solutions and keeps the trajectories of those whose calculations all hold.
pub fn annotated(
    problems: &[Problem],
    environment: &dyn Environment,
    seed: u64,
    progress: impl FnMut(usize) -> Result<()>,
) -> Result<AnnotatedOutput> {
    let tool = tool(environment)?;
    let mut scripts = Vec::with_capacity(problems.len());
    let mut calculations = Vec::with_capacity(problems.len());
    for problem in problems {
        let reference = problem.reference.as_deref().ok_or_else(|| {
            Error::data(format!("problem `{}` has no worked solution", problem.id))
                .help("method `annotated` needs problems with `reference`, as imported by format gsm8k")
        })?;
        let converted = convert(reference, environment, &tool)?;
        scripts.push(EpisodeScript { id: format!("{}-annotated", problem.id), problem, turns: converted.turns, seed });
        calculations.push(converted.calculations);
    }
    let mut result = AnnotatedOutput::default();
    for ((played, script), calculations) in
        play(environment, &scripts, progress)?.into_iter().zip(&scripts).zip(&calculations)
    {
        result.take(played, script, calculations);
    }
    Ok(result)
}

impl AnnotatedOutput {
    fn take(&mut self, played: ScriptedResult, script: &EpisodeScript<'_>, calculations: &[Calculation<'_>]) {
        let agreements = agreements(&played.trajectory, calculations);
        self.executed += agreements.len();
        self.agreeing += agreements.iter().filter(|a| **a == Some(true)).count();
        let differing =
            calculations.iter().zip(&agreements).filter(|(_, agreement)| **agreement != Some(true)).map(|(c, _)| c);
        // A stopped call has no result; it follows those that have one.
        let stopped = calculations.get(agreements.len()).filter(|_| played.timed_out);
        for calculation in differing.chain(stopped) {
            if self.disagreements.len() < 20 {
                self.disagreements.push((
                    script.problem.id.clone(),
                    calculation.expression.into(),
                    calculation.claim.into(),
                ));
            }
        }
        let reason = if played.timed_out {
            Some("time_limit")
        } else if played.turns < script.turns.len() || agreements.len() < calculations.len() {
            Some("ended_early")
        } else if agreements.iter().any(|a| *a != Some(true)) {
            Some("disagreement")
        } else if played.trajectory.reward < 1.0 {
            Some("wrong_answer")
        } else {
            None
        };
        match reason {
            Some(reason) => *self.dropped.entry(reason).or_insert(0) += 1,
            None => self.trajectories.push(played.trajectory),
        }
    }
}

pub struct AnnotatedMethod;

impl SynthesisMethod for AnnotatedMethod {
    fn name(&self) -> &'static str {
        "annotated"
    }
    fn summary(&self) -> &'static str {
        "worked solutions with calculator annotations become tool use"
    }
    fn metrics(&self) -> Vec<MetricInfo> {
        metrics::annotated()
    }
    fn keeps_given_problems(&self) -> bool {
        true
    }
    fn environment(&self) -> Value {
        math_problems::default_options()
    }
    fn check(&self, _: &SynthesisConfig, _: Option<&dyn Environment>, _: &Environments) -> Vec<OptionProblem> {
        Vec::new()
    }
    fn make(
        &self,
        config: &SynthesisConfig,
        given: Vec<Problem>,
        world: &SynthesisContext<'_>,
    ) -> Result<SynthesisOutput> {
        let SynthesisContext { environment, progress, .. } = *world;
        if given.is_empty() {
            return Err(Error::invalid("method `annotated` needs problems")
                .help("wire input `problems` to `data/import` with format gsm8k"));
        }
        let total = given.len();
        let output = annotated(&given, environment, config.seed, |done| progress(done, total))?;
        let report = output.report(total);
        Ok(SynthesisOutput { problems: given, demonstrations: output.trajectories, report })
    }
}

impl AnnotatedOutput {
    fn report(&self, total: usize) -> StageReport {
        let mut report = StageReport::new("Demonstrations from annotated solutions");
        report.summary = format!(
            "{} of {total} solutions became demonstrations; {} of {} executed annotations agree with their authors.",
            self.trajectories.len(),
            self.agreeing,
            self.executed
        );
        report
            .metric("annotations_executed", self.executed as f64)
            .metric("annotations_agreeing", self.agreeing as f64);
        metrics::report_dropped(&mut report, &self.dropped);
        if !self.disagreements.is_empty() {
            let mut table = Table::new("First disagreements", ["problem", "expression", "claimed"]);
            for (problem, expression, claim) in &self.disagreements {
                table.row([ReportCell::text(problem), ReportCell::text(expression), ReportCell::text(claim)]);
            }
            report.table(table);
        }
        report
    }
}
