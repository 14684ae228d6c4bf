//! Quality of a process reward model on held-out problems.

use super::config::Config;
use super::head::{Example, Head, cross_entropy};
use crate::curves::Curves;
use trainyard_api::StageContext;
use trainyard_api::report::{Cell, Report, Table};
use trainyard_core::Result;
use trainyard_learn::statistics::{auc, brier, calibration, mean};

pub fn write(
    context: &mut StageContext,
    config: &Config,
    head: &Head,
    train: &[Example],
    held: &[Example],
    curves: &Curves,
    counts: &[(&str, usize)],
) -> Result<()> {
    let mut report = Report::new("Process reward model");
    let (trained, train_labels) = head.predict(train)?;
    let (predicted, labels) = head.predict(held)?;
    report.summary = format!("{} labelled steps trained on, {} on held-out problems.", train_labels.len(), labels.len());
    let mut metrics: Vec<(String, f64)> = counts.iter().map(|(n, v)| (n.to_string(), *v as f64)).collect();
    let mut add = |name: &str, value: Option<f64>| metrics.extend(value.map(|v| (name.to_string(), v)));
    add("steps_labelled", Some((train_labels.len() + labels.len()) as f64));
    add("held_out_steps", Some(labels.len() as f64));
    add("label_mean", mean(&train_labels));
    add("loss", curves.recent("loss", curves.series("loss").len().div_ceil(10)));
    add("auc", ranking(&predicted, &labels));
    add("training_auc", ranking(&trained, &train_labels));
    add("brier", brier(&predicted, &labels));
    add("brier_constant", mean(&train_labels).and_then(|m| brier(&vec![m; labels.len()], &labels)));
    add("held_out_loss", mean(&predicted.iter().zip(&labels).map(|(p, y)| cross_entropy(logit(*p), *y)).collect::<Vec<_>>()));
    let bins = calibration(&predicted, &labels, config.bins);
    add("ece", bins.as_ref().map(|c| c.ece));
    for (name, value) in metrics {
        context.metric(&name, value);
        report.metric(name, value);
    }
    if let Some(calibration) = bins {
        let mut table = Table::new("Calibration on held-out steps", ["predicted from", "to", "steps", "mean prediction", "mean label"]);
        for bin in calibration.bins.iter().filter(|b| b.n > 0) {
            table.row([bin.low, bin.high, bin.n as f64, bin.predicted, bin.observed].map(Cell::number));
        }
        report.table(table);
    }
    curves.draw(&mut report, "Loss", "nats per step", &[("training", "loss")]);
    report.note(
        "Labels are success shares of continuations, or given; AUC separates labels above one half from labels below, ties left out.",
    );
    report.note("Held-out problems share no problem with training; brier_constant predicts the mean training label everywhere.");
    report.write(context.output("report")?)
}

/// AUC of labels above ½ against labels below; labels of exactly ½ are left out.
fn ranking(predicted: &[f64], labels: &[f64]) -> Option<f64> {
    let decided: Vec<(f64, bool)> = predicted.iter().zip(labels).filter(|(_, y)| **y != 0.5).map(|(p, y)| (*p, *y > 0.5)).collect();
    let (scores, positive): (Vec<f64>, Vec<bool>) = decided.into_iter().unzip();
    auc(&scores, &positive)
}

fn logit(p: f64) -> f64 {
    let p = p.clamp(1e-12, 1.0 - 1e-12);
    (p / (1.0 - p)).ln()
}
