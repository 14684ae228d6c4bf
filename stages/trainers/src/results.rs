//! Publishes the output of a trainer: its weights as a model artifact, and a report.

use crate::progress::{LOSS, TrainerProgress};
use std::path::Path;
use trainyard_api::{StageContext, StageReport};
use trainyard_core::{DeclaredMetrics, Error, MetricInfo, Reduce, Result};
use trainyard_lm::ModelFolder;
use trainyard_lm::checkpoint::SaveOptions;

/// Returns the number of last points of a curve over which a metric is averaged.
fn tail(points: usize) -> usize {
    points.div_ceil(10).max(1)
}

/// Returns the metrics of all engines.
pub fn metrics() -> DeclaredMetrics {
    vec![
        MetricInfo::new(LOSS, "as the trainer has it", "Loss of the training steps, if the trainer reports it.")
            .lower()
            .reduced_by(Reduce::LastTenth)
            .optional(),
        MetricInfo::new("steps", "steps", "Optimizer steps that the trainer reported."),
        MetricInfo::new("rows", "rows", "Rows of the training data."),
        MetricInfo::new("changed_tensors", "tensors", "Tensors of the model that training changed."),
    ]
    .into()
}

/// Publishes the report and the weights in `folder`, which were trained from `start`. A declared metric with the name
/// of a curve is the mean of the last tenth of the curve.
///
/// Errors: data (no optimizer step was reported, no weight changed, or weights have another shape), invalid (an
/// adapter).
pub fn publish(
    context: &mut StageContext,
    (title, start, save): (&str, &ModelFolder, &SaveOptions),
    declared: &DeclaredMetrics,
    folder: &Path,
    (progress, rows): (&TrainerProgress, u64),
) -> Result<()> {
    if progress.steps == 0 {
        return Err(Error::data("the trainer succeeded without reporting an optimizer step")
            .help("append an event after each step, such as {\"step\": 1, \"steps\": 100}"));
    }
    let (model, changed) = start.with_external_weights(folder).map_err(|e| e.at("output of the trainer"))?;
    if changed == 0 {
        return Err(Error::data(format!("the trainer left the weights unchanged after {} steps", progress.steps))
            .help("check its learning rate, and which weights it saves"));
    }
    model.save_as(context.output("model")?, save)?;
    for (key, value) in model.metadata() {
        context.describe("model", &key, value);
    }
    let mut report = StageReport::new(title);
    report.summary = format!("{rows} rows, {} optimizer steps.", progress.steps);
    let mut values = vec![("steps", progress.steps as f64), ("rows", rows as f64), ("changed_tensors", changed as f64)];
    let curve_mean = |metric: &MetricInfo| {
        metric.reduce?;
        let name = metric.name.as_str();
        Some((name.to_string(), progress.curves.recent(name, tail(progress.curves.series(name).len()))?))
    };
    let curve_means: Vec<(String, f64)> = declared.metrics.iter().filter_map(curve_mean).collect();
    values.extend(curve_means.iter().map(|(name, value)| (name.as_str(), *value)));
    for (name, value) in values {
        context.metric(name, value);
        report.metric(name, value);
    }
    let names: Vec<&str> = progress.curves.names("").collect();
    for name in names {
        progress.curves.add_chart(&mut report, name, "", &[(name, name)]);
    }
    context.write_report("report", report, declared)
}
