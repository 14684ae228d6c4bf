//! Measures the quality of a process reward model on held-out problems, and writes the report.

use super::config::PrmConfig;
use super::contrast;
use super::example::{Example, sigmoid};
use super::head::{ScoringHead, cross_entropy};
use trainyard_api::StageContext;
use trainyard_api::curves::LearningCurves;
use trainyard_api::report::{ReportCell, StageReport, Table};
use trainyard_core::{MetricInfo, Reduce, Result};
use trainyard_learn::statistics::{auc, brier, calibration, clustered_mean, mean};

/// Declares the stage's metrics. A metric is optional if it needs labels of both kinds, or correct and incorrect
/// rollouts of one problem.
pub fn metrics() -> Vec<MetricInfo> {
    let mut list = vec![
        MetricInfo::new("rollouts", "rollouts", "Episodes with labeled steps."),
        MetricInfo::new("prefixes", "prefixes", "Step ends from which more episodes were sampled."),
        MetricInfo::new("infrastructure_failures", "rollouts", "Rollouts that ended with an infrastructure failure.")
            .lower(),
        MetricInfo::new("rows_left_out", "rows", "Rows that were left out.").lower(),
        MetricInfo::new("rows_too_long", "rows", "Rows that are longer than the model's context.").lower(),
        MetricInfo::new("steps_labeled", "steps", "Labeled steps, for training and measuring."),
        MetricInfo::new("held_out_steps", "steps", "Labeled steps of held-out problems."),
        MetricInfo::new("label_mean", "share", "Mean label of the training steps.").optional(),
        MetricInfo::new("loss", "nats per step", "Loss on the labeled steps.")
            .lower()
            .reduced_by(Reduce::LastTenth)
            .optional(),
        MetricInfo::new("auc", "share", "Chance that a label above ½ scores above one below, on held-out problems.")
            .higher()
            .optional(),
        MetricInfo::new("training_auc", "share", "The same on the training problems.").higher().optional(),
        MetricInfo::new("brier", "squared error", "Mean squared error of held-out predictions.").lower().optional(),
        MetricInfo::new("brier_constant", "squared error", "The same of always predicting the mean training label.")
            .optional(),
        MetricInfo::new("held_out_loss", "nats per step", "Loss on the labeled steps of held-out problems.")
            .lower()
            .optional(),
        MetricInfo::new("ece", "share", "Expected calibration error on held-out problems.").lower().optional(),
    ];
    for (name, of) in [
        ("training_ranking", "rollouts of a training problem"),
        ("ranking", "rollouts of a held-out problem"),
        ("ranking_alike", "rollouts of a held-out problem that are equally long"),
    ] {
        let share = format!("Share of the pairs of a right and a wrong one among {of} that are ranked rightly.");
        list.push(MetricInfo::new(name, "share", share).higher().optional());
        list.push(
            MetricInfo::new(format!("{name}_low"), "share", "Lower end of its 95% interval.").higher().optional(),
        );
        list.push(
            MetricInfo::new(format!("{name}_high"), "share", "Upper end of its 95% interval.").higher().optional(),
        );
        list.push(MetricInfo::new(format!("{name}_pairs"), "pairs", "Number of pairs of this share.").optional());
    }
    list
}

/// Measures the head on training and held-out examples, sets all metrics and writes the report; `counts` are further
/// metrics.
pub fn write(
    context: &mut StageContext,
    config: &PrmConfig,
    head: &ScoringHead,
    train: &[Example],
    held: &[Example],
    curves: &LearningCurves,
    counts: &[(&str, usize)],
) -> Result<()> {
    let mut report = StageReport::new("Process reward model");
    let (trained, train_labels) = labeled(head, train)?;
    let (predicted, labels) = labeled(head, held)?;
    report.summary = format!("{} labeled steps trained on, {} on held-out problems.", train_labels.len(), labels.len());
    let mut metrics: Vec<(String, f64)> = counts.iter().map(|(n, v)| (n.to_string(), *v as f64)).collect();
    let mut add = |name: &str, value: Option<f64>| metrics.extend(value.map(|v| (name.to_string(), v)));
    add("steps_labeled", Some((train_labels.len() + labels.len()) as f64));
    add("held_out_steps", Some(labels.len() as f64));
    add("label_mean", mean(&train_labels));
    add("loss", curves.recent("loss", curves.series("loss").len().div_ceil(10)));
    add("auc", ranking(&predicted, &labels));
    add("training_auc", ranking(&trained, &train_labels));
    add("brier", brier(&predicted, &labels));
    add("brier_constant", mean(&train_labels).and_then(|m| brier(&vec![m; labels.len()], &labels)));
    add(
        "held_out_loss",
        mean(&predicted.iter().zip(&labels).map(|(p, y)| cross_entropy(logit(*p), *y)).collect::<Vec<_>>()),
    );
    let bins = calibration(&predicted, &labels, config.bins);
    add("ece", bins.as_ref().map(|c| c.ece));
    metrics.extend(within_problems(head, train, "training_ranking", false)?);
    metrics.extend(within_problems(head, held, "ranking", false)?);
    metrics.extend(within_problems(head, held, "ranking_alike", true)?);
    for (name, value) in metrics {
        context.metric(&name, value);
        report.metric(name, value);
    }
    if let Some(calibration) = bins {
        let mut table = Table::new(
            "Calibration on held-out steps",
            ["predicted from", "to", "steps", "mean prediction", "mean label"],
        );
        for bin in calibration.bins.iter().filter(|b| b.n > 0) {
            table.row([bin.low, bin.high, bin.n as f64, bin.predicted, bin.observed].map(ReportCell::number));
        }
        report.table(table);
    }
    curves.add_chart(&mut report, "Loss", "nats per step", &[("training", "loss")]);
    report.note(
        "Labels are success shares of continuations, or given; AUC separates labels above one half from labels \
            below, ties left out.",
    );
    if let Some((_, n)) = counts.iter().find(|(name, n)| *name == "rows_too_long" && *n > 0) {
        report.note(format!("{n} given rows are longer than the model's positions and were left out."));
    }
    report.note(
        "Held-out problems share no problem with training; brier_constant predicts the mean training label everywhere.",
    );
    context.write_report("report", report, &self::metrics().into())
}

/// Returns (predicted probability, label) of every labeled step, in order of the examples.
fn labeled(head: &ScoringHead, examples: &[Example]) -> Result<(Vec<f64>, Vec<f64>)> {
    let examples: Vec<&Example> = examples.iter().collect();
    let logits = head.logits(&examples)?;
    let steps = examples
        .iter()
        .zip(&logits)
        .flat_map(|(e, logits)| e.steps.iter().map(|s| s.1).zip(logits.iter().map(|z| sigmoid(*z))));
    Ok(steps.filter(|(label, _)| !label.is_nan()).map(|(label, p)| (p, label)).unzip())
}

/// Returns the share of pairs of one problem that the head ranks correctly, with its interval and the number of pairs;
/// empty without a pair.
fn within_problems(head: &ScoringHead, examples: &[Example], name: &str, alike: bool) -> Result<Vec<(String, f64)>> {
    let examples: Vec<&Example> = examples.iter().filter(|e| e.right.is_some()).collect();
    let scores: Vec<f64> = head.logits(&examples)?.iter().map(|z| z.last().copied().unwrap_or(0.0)).collect();
    let ranking = contrast::ranking(&examples, &scores, alike);
    let Some(estimate) = clustered_mean(&ranking.shares, &ranking.problems) else { return Ok(Vec::new()) };
    let mut list = vec![(name.to_string(), estimate.value), (format!("{name}_pairs"), ranking.shares.len() as f64)];
    if let Some((low, high)) = estimate.interval() {
        list.extend([(format!("{name}_low"), low), (format!("{name}_high"), high)]);
    }
    Ok(list)
}

/// Returns the AUC of labels above ½ against labels below; labels of exactly ½ are left out.
fn ranking(predicted: &[f64], labels: &[f64]) -> Option<f64> {
    let decided: Vec<(f64, bool)> =
        predicted.iter().zip(labels).filter(|(_, y)| **y != 0.5).map(|(p, y)| (*p, *y > 0.5)).collect();
    let (scores, positive): (Vec<f64>, Vec<bool>) = decided.into_iter().unzip();
    auc(&scores, &positive)
}

fn logit(p: f64) -> f64 {
    let p = p.clamp(1e-12, 1.0 - 1e-12);
    (p / (1.0 - p)).ln()
}
