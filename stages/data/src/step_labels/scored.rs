//! Labels the turns of given trajectories with a step scorer.

use crate::io;
use crate::step_scorers::{ScoringContext, StepScorer};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_api::StageContext;
use trainyard_api::report::{ReportCell, StageReport, Table};
use trainyard_core::{Error, MetricInfo, Result};
use trainyard_envs::programs::log;
use trainyard_tables::{Problem, Trajectory};

/// Returns the metrics of a run with a step scorer.
pub fn metrics() -> Vec<MetricInfo> {
    let count = |name: &'static str, doc: &'static str| MetricInfo::new(name, "count", doc);
    vec![
        count("trajectories", "Trajectories that were labeled."),
        count("problems", "Problems that they solve."),
        count("steps", "Steps of all solutions."),
        count("steps_labeled", "Steps with a label."),
        count("steps_unlabeled", "Steps without a label."),
        MetricInfo::new("label_mean", "label", "Mean of all labels.").optional(),
    ]
}

/// Labels the input `trajectories`, writes the outputs `trajectories` and `problems`, and reports metrics.
pub fn run(scorer: &dyn StepScorer, context: &mut StageContext) -> Result<()> {
    let mut rows = io::read_many_trajectories(context.many("trajectories"))?;
    if rows.is_empty() {
        return Err(Error::data("input `trajectories` has no rows").help("wire it to an output that has rows"));
    }
    let mut problems = io::read_many_problems(context.many("problems"))?;
    let named: BTreeSet<&str> = rows.iter().map(|row| row.problem_id.as_str()).collect();
    problems.retain(|problem| named.contains(problem.id.as_str()));
    let by_id: BTreeMap<String, Problem> = problems.iter().map(|p| (p.id.clone(), p.clone())).collect();
    let log = log(context);
    let scoring = ScoringContext { problems: &by_id, log: &log, secrets: &context.secrets };
    let seen: Vec<&Trajectory> = rows.iter().collect();
    let labels = scorer.label(&seen, &scoring)?;
    let counted = (named.len(), labels.iter().flatten().copied().collect::<Vec<Option<f32>>>());
    for (row, labels) in rows.iter_mut().zip(labels) {
        // Existing ends and scores of a row may be those of other steps, such as lines.
        row.step_ends.clear();
        row.step_scores = None;
        row.step_labels = Some(labels.into_iter().map(|label| label.unwrap_or(f32::NAN)).collect());
    }
    report(rows.len(), &counted, context)?;
    io::write_trajectories(&context.output_parquet("trajectories")?, &rows)?;
    io::write_problems(&context.output_parquet("problems")?, &problems)
}

fn report(rows: usize, (problems, labels): &(usize, Vec<Option<f32>>), context: &mut StageContext) -> Result<()> {
    let known: Vec<f64> = labels.iter().flatten().map(|label| f64::from(*label)).collect();
    let mut values = vec![
        ("trajectories", rows as f64),
        ("problems", *problems as f64),
        ("steps", labels.len() as f64),
        ("steps_labeled", known.len() as f64),
        ("steps_unlabeled", (labels.len() - known.len()) as f64),
    ];
    if !known.is_empty() {
        values.push(("label_mean", known.iter().sum::<f64>() / known.len() as f64));
    }
    let mut report = StageReport::new("Step labels");
    report.summary = format!("{} of {} steps of {rows} trajectories have a label.", known.len(), labels.len());
    let mut table = Table::new("Counts", ["what", "count"]);
    for (name, value) in values {
        context.metric(name, value);
        report.metric(name, value);
        table.row([ReportCell::text(name.replace('_', " ")), ReportCell::Number(value)]);
    }
    report.table(table);
    report.note("A step is one agent turn. Its label is the step scorer's number, from 0 (wrong) to 1 (right).");
    context.write_report("report", report, &metrics().into())
}

#[cfg(test)]
#[path = "scored_tests.rs"]
mod tests;
