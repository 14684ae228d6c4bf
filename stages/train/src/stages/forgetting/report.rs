//! Writes the metrics and the report of `forgetting`: the matrix, the forgetting of each task, and the gain from
//! training on each task.

use super::config::ForgettingConfig;
use super::matrix::{AccuracyMatrix, TaskChange, over_tasks};
use trainyard_api::StageContext;
use trainyard_api::report::{Curve, ReportCell, StageReport, Table};
use trainyard_core::{Error, Result};
use trainyard_learn::statistics::Estimate;

/// Sets all metrics and returns the report.
pub fn describe(config: &ForgettingConfig, matrix: &AccuracyMatrix, context: &mut StageContext) -> Result<StageReport> {
    let mut report = StageReport::new("Forgetting");
    cells(config, matrix, context, &mut report);
    let missing_values = || Error::bug("a task without values passed the check of the matrix");
    let end = matrix.final_accuracy().ok_or_else(missing_values)?;
    publish("final_accuracy", &end, context, &mut report);
    let lost = matrix.forgetting()?;
    let average = average(&lost).ok_or_else(missing_values)?;
    publish("forgetting", &average, context, &mut report);
    forgotten(config, matrix, &lost, context, &mut report);
    let gained = matrix.learned()?;
    if let Some(gained) = &gained {
        learned(config, gained, context, &mut report)?;
    }
    report.summary = format!(
        "{} tasks one after another: mean `{}` {:.3} at the end, average forgetting {:.3}.",
        config.tasks.len(),
        config.metric,
        end.value,
        average.value
    );
    notes(&lost, gained.as_deref().unwrap_or_default(), &mut report);
    Ok(report)
}

/// Writes the matrix as metrics, table and curve.
fn cells(config: &ForgettingConfig, matrix: &AccuracyMatrix, context: &mut StageContext, report: &mut StageReport) {
    let names = config.tasks.iter().map(|t| t.name.clone());
    let heads = std::iter::once("after".to_string()).chain(names).chain(["mean".to_string()]);
    let mut table = Table::new(format!("{} after each task", config.metric), heads);
    for t in matrix.stages() {
        let label = match (t.checked_sub(1), &config.initial) {
            (Some(before), _) => format!("{} ({})", config.tasks[before].name, config.models[before]),
            (None, initial) => format!("nothing ({})", initial.as_deref().unwrap_or_default()),
        };
        let mut row = vec![ReportCell::text(label)];
        let mut known = Vec::new();
        for (i, task) in config.tasks.iter().enumerate() {
            let Some(e) = matrix.cell(t, i) else {
                row.push(ReportCell::Empty);
                continue;
            };
            let name = format!("accuracy_{t}_{}", task.name);
            context.metric(&name, e.value);
            report.estimate(name, e.value, matrix.interval(&e), e.clusters as u64);
            row.push(ReportCell::interval(e.value, matrix.interval(&e)));
            known.push(e);
        }
        let mean = if known.len() == config.tasks.len() { over_tasks(&known) } else { None };
        row.push(mean.map_or(ReportCell::Empty, |e| ReportCell::interval(e.value, e.interval())));
        table.row(row);
    }
    report.table(table);
    let point = |t: usize, i: usize| matrix.cell(t, i).map(|e| (t as f64, e.value));
    let mut curve = Curve::new("Every task along the sequence", "tasks trained", &config.metric);
    for (i, task) in config.tasks.iter().enumerate() {
        curve = curve.with(&task.name, matrix.stages().filter_map(|t| point(t, i)));
    }
    report.curve(curve);
}

fn forgotten(
    config: &ForgettingConfig,
    matrix: &AccuracyMatrix,
    lost: &[TaskChange],
    context: &mut StageContext,
    report: &mut StageReport,
) {
    let heads = ["task", "just after it", "at the end", "forgotten", "from the best", "problems"];
    let mut table = Table::new("Forgetting by task", heads);
    let mut best = 0.0;
    for (i, (task, change)) in config.tasks.iter().zip(lost).enumerate() {
        let from_best = matrix.from_best(i);
        best += from_best;
        let values = (change.difference.a, change.difference.b);
        let mut cells = row(&format!("forgetting_of_{}", task.name), &task.name, change, values, context, report);
        cells.insert(4, ReportCell::number(from_best));
        table.row(cells);
        let problems = change.difference.difference.clusters as f64;
        context.metric(format!("problems_{}", task.name), problems);
    }
    let best = best / lost.len().max(1) as f64;
    context.metric("forgetting_from_best", best);
    report.metric("forgetting_from_best", best);
    report.table(table);
}

fn learned(
    config: &ForgettingConfig,
    gained: &[TaskChange],
    context: &mut StageContext,
    report: &mut StageReport,
) -> Result<()> {
    let average = average(gained).ok_or_else(|| Error::bug("no task has a gain"))?;
    publish("learned", &average, context, report);
    let mut table = Table::new("Gain by task", ["task", "before all", "just after it", "gain", "problems"]);
    for (task, change) in config.tasks.iter().zip(gained) {
        let values = (change.difference.b, change.difference.a);
        table.row(row(&format!("learned_of_{}", task.name), &task.name, change, values, context, report));
    }
    report.table(table);
    Ok(())
}

/// Writes one task's difference as metric and cells: label, two values, difference, problems.
fn row(
    name: &str,
    label: &str,
    change: &TaskChange,
    (first, second): (f64, f64),
    context: &mut StageContext,
    report: &mut StageReport,
) -> Vec<ReportCell> {
    let d = &change.difference.difference;
    context.metric(name, d.value);
    report.estimate(name, d.value, d.interval(), d.clusters as u64);
    vec![
        ReportCell::text(label),
        ReportCell::number(first),
        ReportCell::number(second),
        ReportCell::interval(d.value, d.interval()),
        ReportCell::number(d.clusters as f64),
    ]
}

fn average(changes: &[TaskChange]) -> Option<Estimate> {
    over_tasks(&changes.iter().map(|c| c.difference.difference).collect::<Vec<_>>())
}

fn publish(name: &str, e: &Estimate, context: &mut StageContext, report: &mut StageReport) {
    context.metric(name, e.value);
    if let Some((low, high)) = e.interval() {
        context.metric(format!("{name}_low"), low);
        context.metric(format!("{name}_high"), high);
    }
    report.estimate(name, e.value, e.interval(), e.clusters as u64);
}

fn notes(lost: &[TaskChange], gained: &[TaskChange], report: &mut StageReport) {
    report.note(
        "Forgetting is the value just after a task's training minus the value at the end, a mean over all tasks \
         but the last (protocol of 2507.05386); below 0, later training helped. From the best: the highest value \
         since its training instead; the highest of several measured values is biased upwards, so it has no \
         interval.",
    );
    report.note(
        "Intervals are 95%: of differences paired and clustered by problem (2411.00640), of greedy accuracy \
        by Wilson's score; tasks count the same.",
    );
    let left_out: usize = lost.iter().chain(gained).map(|c| c.left_out).sum();
    if left_out > 0 {
        report.note(format!(
            "{left_out} times a problem has a value for only one of two models (infrastructure \
                failures) and is left out."
        ));
    }
}
