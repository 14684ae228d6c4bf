//! Final metrics and the report of an RL run.

use super::config::Config;
use super::run::State;
use crate::curves::Curves;
use trainyard_api::StageContext;
use trainyard_api::report::{Cell, Report, Table};
use trainyard_core::Result;

/// Whose largest value of any step is the metric; of all others (but the next) it is the mean of the last tenth of the steps.
const LARGEST: [&str; 2] = ["kl", "grad_norm_max"];
/// Whose mean over all steps is the metric: what a mechanism does on any weights.
const WHOLE: &[&str] = &[
    "clip_higher_fraction",
    "critical_path_tokens",
    "entropy_lowered",
    "error_rate_removed",
    "fork_entropy_jump",
    "forked_share",
    "nonfork_entropy_jump",
    "outside_band",
    "pass_rate_lopsidedness",
    "rescued",
    "reward_per_call",
    "reward_per_error",
    "reward_per_token",
    "roots_slope",
    "sampled_tokens",
    "silent_tokens",
    "stale_groups",
    "staleness",
    "stratum_gap",
    "tool_errors_in_passes",
    "void_in_update",
];
/// Whose value at the first step is a metric of its own: there the weights are still those of the input.
const INITIAL: [&str; 7] =
    ["distinct_rewards", "kept_groups_share", "pass_rate", "reward_mean", "scaffold_share", "turn_limit", "turns"];
/// Summed over all steps.
const FAILURES: &str = "infrastructure_failures";

/// Sets all metrics of the stage and writes its report.
pub fn write(context: &mut StageContext, config: &Config, state: &State) -> Result<()> {
    let mut report = Report::new("Reinforcement learning");
    report.summary = format!(
        "{} steps of {} groups of {} rollouts.",
        state.step, config.problems_per_step, config.rollout.group_size
    );
    for (name, value) in metrics(config, state) {
        context.metric(&name, value);
        report.metric(name, value);
    }
    report.table(levels(state));
    curves(&mut report, &state.curves);
    report
        .note("Pass rates of training rollouts are at the sampling temperature, before filters; validation is greedy.");
    report.note("kl is the k3 estimate between the sampling policy and the policy at each update; its largest step mean is the metric.");
    report.write(context.output("report")?)
}

fn metrics(config: &Config, state: &State) -> Vec<(String, f64)> {
    let tail = (config.steps as usize).div_ceil(10);
    let curves = &state.curves;
    let means = curves.names("").filter(|n| !n.starts_with("validation") && !LARGEST.contains(n) && *n != FAILURES);
    let mut list: Vec<(String, f64)> = means
        .filter_map(|n| Some((n.to_string(), curves.recent(n, if WHOLE.contains(&n) { usize::MAX } else { tail })?)))
        .collect();
    let largest = |name: &str| curves.series(name).iter().map(|p| p.1).reduce(f64::max);
    list.extend(LARGEST.iter().filter_map(|n| Some((n.to_string(), largest(n)?))));
    let first = |name: &str| curves.series(name).first().map(|p| p.1);
    list.extend(INITIAL.iter().filter_map(|n| Some((format!("{n}_initial"), first(n)?))));
    list.push(("steps".into(), state.step as f64));
    list.push(("empty_steps".into(), state.empty_steps as f64));
    list.push((FAILURES.into(), state.failures as f64));
    if let Some((step, accuracy)) = state.best {
        list.push(("validation_accuracy".into(), accuracy));
        list.push(("validation_best_step".into(), step as f64));
        list.extend(
            curves.series("validation_accuracy").first().map(|p| ("validation_accuracy_initial".to_string(), p.1)),
        );
        list.extend(curves.last("validation_accuracy").map(|v| ("validation_accuracy_last".to_string(), v)));
    }
    list
}

fn levels(state: &State) -> Table {
    let mut table = Table::new("Training rollouts by level", ["level", "rollouts", "pass rate"]);
    for level in state.rates.levels() {
        let (attempts, passes) = state.rates.level(level);
        table.row([
            Cell::number(f64::from(level)),
            Cell::number(attempts as f64),
            Cell::number(passes as f64 / attempts.max(1) as f64),
        ]);
    }
    table
}

fn curves(report: &mut Report, curves: &Curves) {
    curves.draw(
        report,
        "Reward and pass rate",
        "per rollout",
        &[("reward", "reward_mean"), ("pass rate", "pass_rate"), ("validation (greedy)", "validation_accuracy")],
    );
    family(report, curves, "Pass rate by level", "pass_rate_level_");
    family(report, curves, "Validation by level (greedy)", "validation_accuracy_level_");
    curves.draw(report, "Curriculum", "level", &[("unlocked level", "curriculum_level")]);
    curves.draw(report, "Entropy", "nats per token", &[("entropy", "entropy")]);
    curves.draw(
        report,
        "Distance from the sampling policy",
        "",
        &[("kl", "kl"), ("clip fraction", "clip_fraction"), ("kl to the reference", "kl_reference")],
    );
    curves.draw(report, "Gradient norm", "", &[("mean", "grad_norm"), ("largest", "grad_norm_max")]);
    curves.draw(
        report,
        "Tools and turns",
        "per rollout",
        &[("tool calls", "tool_calls"), ("tool errors", "tool_errors"), ("turns", "turns")],
    );
    curves.draw(report, "Sampled tokens", "per rollout", &[("tokens", "tokens")]);
}

fn family(report: &mut Report, curves: &Curves, title: &str, prefix: &str) {
    let names: Vec<String> = curves.names(prefix).map(str::to_string).collect();
    let series: Vec<(String, &str)> =
        names.iter().map(|n| (format!("level {}", &n[prefix.len()..]), n.as_str())).collect();
    curves.draw(report, title, "share passed", &series.iter().map(|(l, n)| (l.as_str(), *n)).collect::<Vec<_>>());
}
