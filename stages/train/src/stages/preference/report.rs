//! Writes the output of `preference`: declared metrics, their values, and the report.

use super::config::{PreferenceConfig, WeightsChoice};
use super::pairs::PairCounts;
use super::run::PreferenceState;
use trainyard_api::StageContext;
use trainyard_api::report::StageReport;
use trainyard_core::{MetricInfo, Reduce, Result};

/// Series of the training steps that become metrics.
const SERIES: [&str; 9] = [
    "loss",
    "accuracy",
    "margin",
    "chosen_reward",
    "rejected_reward",
    "chosen_logprob",
    "rejected_logprob",
    "sft_loss",
    "grad_norm",
];
/// Series of the held-out pairs.
const HELD_OUT: [&str; 3] = ["validation_loss", "validation_accuracy", "validation_margin"];

/// Declares all metrics, with every optional one.
pub fn metrics() -> Vec<MetricInfo> {
    let step = |name: &'static str, unit: &'static str, doc: &'static str| {
        MetricInfo::new(name, unit, doc).reduced_by(Reduce::LastTenth)
    };
    let mut list = vec![
        step("loss", "per pair", "Loss on training pairs, including the term of `sft_weight`.").lower(),
        step("accuracy", "share", "Share of pairs whose chosen answer has the higher implicit reward.").higher(),
        step("margin", "reward", "Implicit reward of the chosen answer minus that of the rejected one.").higher(),
        step("chosen_reward", "reward", "Implicit reward of the chosen answer."),
        step("rejected_reward", "reward", "Implicit reward of the rejected answer."),
        step("chosen_logprob", "nats", "Log-probability of the chosen answer: the sum over its tokens in the loss."),
        step("rejected_logprob", "nats", "Log-probability of the rejected answer."),
        step("sft_loss", "nats per token", "Negative log-probability per token of the chosen answer (`sft_weight`).")
            .lower()
            .optional(),
        step("grad_norm", "norm", "Norm of the gradient before it is clipped."),
        MetricInfo::new("steps", "steps", "Optimizer steps."),
        MetricInfo::new("tokens", "tokens", "Tokens read, prompts included, without those of the reference."),
        MetricInfo::new("pairs", "pairs", "Training pairs."),
        MetricInfo::new("pairs_held_out", "pairs", "Held-out pairs."),
        MetricInfo::new("pairs_too_long", "pairs", "Pairs left out because a conversation does not fit the context.")
            .lower(),
        MetricInfo::new("pairs_without_loss", "pairs", "Pairs left out because an answer has no token in the loss.")
            .lower(),
        MetricInfo::new("pairs_incomplete", "pairs", "Pairs left out because one of their rows is missing.").lower(),
        MetricInfo::new(
            "shared_turns",
            "turns",
            "Turns that both answers of a pair begin with, excluded from the loss.",
        ),
    ];
    let kept = "of held-out pairs, of the weights that are kept.";
    let held_out = [
        MetricInfo::new(HELD_OUT[0], "per pair", format!("Loss {kept}")).lower(),
        MetricInfo::new(HELD_OUT[1], "share", format!("Share with the chosen answer ahead {kept}")).higher(),
        MetricInfo::new(HELD_OUT[2], "reward", format!("Margin between the implicit rewards {kept}")).higher(),
        MetricInfo::new("validation_loss_initial", "per pair", "Loss of held-out pairs before the first step.").lower(),
        MetricInfo::new("best_step", "steps", "Step with the lowest validation loss; 0 is the input model."),
    ];
    list.extend(held_out.map(MetricInfo::optional));
    list
}

/// Declares the metrics of these options; `held_out`: whether there are held-out pairs.
pub fn declared(config: &PreferenceConfig, held_out: bool) -> Vec<MetricInfo> {
    let mut list = metrics();
    list.retain(|m| match m.name.as_str() {
        "sft_loss" => config.sft_weight > 0.0,
        "best_step" => held_out,
        name => held_out || !name.starts_with("validation"),
    });
    list.iter_mut().filter(|m| m.name == "sft_loss").for_each(|m| m.optional = false);
    list
}

/// Sets all metrics and writes the report.
pub fn write(
    context: &mut StageContext,
    config: &PreferenceConfig,
    state: &PreferenceState,
    counts: &PairCounts,
    (pairs, held): (usize, usize),
) -> Result<()> {
    let mut report = StageReport::new("Preference training");
    report.summary = format!("{pairs} pairs, {} optimizer steps, {} tokens read.", state.step, state.tokens);
    let tail = (state.step as usize).div_ceil(10).max(1);
    let mut found = vec![
        ("steps", state.step as f64),
        ("tokens", state.tokens as f64),
        ("pairs", pairs as f64),
        ("pairs_held_out", held as f64),
        ("pairs_too_long", counts.too_long as f64),
        ("pairs_without_loss", counts.without_loss as f64),
        ("pairs_incomplete", counts.incomplete as f64),
        ("shared_turns", counts.shared_turns as f64),
    ];
    found.extend(SERIES.iter().filter_map(|name| Some((*name, state.curves.recent(name, tail)?))));
    found.extend(HELD_OUT.iter().filter_map(|name| Some((*name, kept(config, state, name)?))));
    found.extend(state.curves.series(HELD_OUT[0]).first().map(|point| ("validation_loss_initial", point.1)));
    found.extend(state.best.map(|(step, _)| ("best_step", step as f64)));
    for (name, value) in found {
        context.metric(name, value);
        report.metric(name, value);
    }
    let draw = |report: &mut StageReport, title: &str, y: &str, series: &[(&str, &str)]| {
        state.curves.add_chart(report, title, y, series);
    };
    draw(&mut report, "Loss", "per pair", &[("training", "loss"), ("validation", "validation_loss")]);
    draw(&mut report, "Pairs in order", "share", &[("training", "accuracy"), ("validation", "validation_accuracy")]);
    draw(&mut report, "Implicit rewards", "", &[("chosen", "chosen_reward"), ("rejected", "rejected_reward")]);
    draw(&mut report, "Log-probabilities", "nats", &[("chosen", "chosen_logprob"), ("rejected", "rejected_logprob")]);
    draw(&mut report, "Gradient norm", "", &[("norm", "grad_norm")]);
    draw(&mut report, "Learning rate", "", &[("rate", "learning_rate")]);
    report.note("If the log-probability of chosen answers falls with that of rejected ones, raise `sft_weight`.");
    context.write_report("report", report, &metrics().into())
}

/// Returns the value of a series of measurements at the weights that are kept, or `None` without a measurement.
fn kept(config: &PreferenceConfig, state: &PreferenceState, name: &str) -> Option<f64> {
    let series = state.curves.series(name);
    let best = state.best.filter(|_| config.keep == WeightsChoice::Best).map(|(step, _)| step);
    let point = best.map_or_else(|| series.last(), |step| series.iter().rfind(|point| point.0 == step))?;
    Some(point.1)
}
