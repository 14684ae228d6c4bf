//! Writes the final metrics and the report of an RL run, reduced over steps as [`super::declared`] and the parts
//! declare.

use super::config::RlConfig;
use super::run::RlState;
use crate::unreadable::{UNREADABLE, warn_if_many};
use std::collections::BTreeSet;
use trainyard_api::StageContext;
use trainyard_api::curves::LearningCurves;
use trainyard_api::report::{ReportCell, StageReport, Table};
use trainyard_core::{Error, MetricInfo, Result};

/// Sets all metrics of the stage and writes its report.
pub fn write(context: &mut StageContext, config: &RlConfig, declared: &[MetricInfo], state: &RlState) -> Result<()> {
    let mut report = StageReport::new("Reinforcement learning");
    report.summary = format!(
        "{} steps of {} groups of {} rollouts.",
        state.step, config.problems_per_step, config.rollout.group_size
    );
    for (name, value) in metrics(config, declared, state) {
        context.metric(&name, value);
        if name == UNREADABLE {
            warn_if_many("rollouts of the last tenth of the steps", value, context);
        }
        report.metric(name, value);
    }
    report.table(levels(state));
    curves(&mut report, &state.curves);
    report
        .note("Pass rates of training rollouts are at the sampling temperature, before filters; validation is greedy.");
    report.note(
        "kl is the k3 estimate between the sampling policy and the policy at each update; \
         its largest step mean is the metric.",
    );
    context.write_report("report", report, &declared.to_vec().into())
}

/// Returns every declared metric that was measured, by name.
fn metrics(config: &RlConfig, declared: &[MetricInfo], state: &RlState) -> Vec<(String, f64)> {
    let tail = (config.steps as usize).div_ceil(10);
    let measured: BTreeSet<&str> = state.curves.names("").collect();
    let mut list = once(state);
    for metric in declared {
        let Some(reduce) = metric.reduce else { continue };
        for name in measured.iter().filter(|name| covers(metric, name)) {
            let values: Vec<f64> = state.curves.series(name).iter().map(|point| point.1).collect();
            let reported = if metric.is_family() { (*name).to_string() } else { metric.name.clone() };
            list.extend(reduce.apply(&values, tail).map(|value| (reported, value)));
        }
    }
    list
}

/// Returns whether a metric reduces the steps of a series.
fn covers(metric: &MetricInfo, series: &str) -> bool {
    if metric.is_family() { metric.covers(series) } else { metric.series() == series }
}

/// Returns the metrics that are measured once.
fn once(state: &RlState) -> Vec<(String, f64)> {
    let mut list =
        vec![("steps".to_string(), state.step as f64), ("empty_steps".to_string(), state.empty_steps as f64)];
    let Some((step, accuracy)) = state.best else { return list };
    let greedy = state.curves.series("validation_accuracy");
    list.push(("validation_accuracy".into(), accuracy));
    list.push(("validation_best_step".into(), step as f64));
    list.extend(greedy.first().map(|p| ("validation_accuracy_initial".to_string(), p.1)));
    list.extend(greedy.last().map(|p| ("validation_accuracy_last".to_string(), p.1)));
    list
}

/// Rejects an undeclared series, which would be missing from the report without notice. This also checks parts of other
/// crates. Errors: bug.
pub fn all_declared(declared: &[MetricInfo], state: &RlState) -> Result<()> {
    let known = |name: &str| name.starts_with("validation_") || declared.iter().any(|m| covers(m, name));
    match state.curves.names("").find(|name| !known(name)) {
        None => Ok(()),
        Some(name) => Err(Error::bug(format!("metric `{name}` is measured, but its part does not declare it"))
            .help("list it in `metrics` of the part's options")),
    }
}

fn levels(state: &RlState) -> Table {
    let mut table = Table::new("Training rollouts by level", ["level", "rollouts", "pass rate"]);
    for level in state.rates.levels() {
        let (attempts, passes) = state.rates.level(level);
        table.row([
            ReportCell::number(f64::from(level)),
            ReportCell::number(attempts as f64),
            ReportCell::number(passes as f64 / attempts.max(1) as f64),
        ]);
    }
    table
}

fn curves(report: &mut StageReport, curves: &LearningCurves) {
    curves.add_chart(
        report,
        "Reward and pass rate",
        "per rollout",
        &[("reward", "reward_mean"), ("pass rate", "pass_rate"), ("validation (greedy)", "validation_accuracy")],
    );
    family(report, curves, "Pass rate by level", "pass_rate_level_");
    family(report, curves, "Validation by level (greedy)", "validation_accuracy_level_");
    curves.add_chart(report, "Curriculum", "level", &[("unlocked level", "levels.unlocked")]);
    curves.add_chart(report, "Entropy", "nats per token", &[("entropy", "entropy")]);
    distance(report, curves);
    curves.add_chart(report, "Gradient norm", "", &[("mean", "grad_norm"), ("largest", "grad_norm_max")]);
    curves.add_chart(
        report,
        "Tools and turns",
        "per rollout",
        &[("tool calls", "tool_calls"), ("tool errors", "tool_errors"), ("turns", "turns")],
    );
    curves.add_chart(report, "Sampled tokens", "per rollout", &[("tokens", "tokens")]);
}

/// Adds the size of the update, with the clipped share of every term.
fn distance(report: &mut StageReport, curves: &LearningCurves) {
    let clipped: Vec<(String, String)> = curves
        .names("")
        .filter_map(|name| Some((format!("clipped by {}", name.strip_suffix(".fraction")?), name.to_string())))
        .collect();
    let mut series = vec![("kl", "kl"), ("kl to the reference", "kl.reference")];
    series.extend(clipped.iter().map(|(label, name)| (label.as_str(), name.as_str())));
    curves.add_chart(report, "Distance from the sampling policy", "", &series);
}

fn family(report: &mut StageReport, curves: &LearningCurves, title: &str, prefix: &str) {
    let names: Vec<String> = curves.names(prefix).map(str::to_string).collect();
    let series: Vec<(String, &str)> =
        names.iter().map(|n| (format!("level {}", &n[prefix.len()..]), n.as_str())).collect();
    curves.add_chart(report, title, "share passed", &series.iter().map(|(l, n)| (l.as_str(), *n)).collect::<Vec<_>>());
}
