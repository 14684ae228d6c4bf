//! Output of a trainer: the weights as a model artifact, and a report.

use crate::progress::{LOSS, TrainerProgress};
use std::path::Path;
use trainyard_api::{StageContext, StageReport};
use trainyard_core::{DeclaredMetrics, Error, MetricInfo, Reduce, Result};
use trainyard_lm::ModelFolder;
use trainyard_lm::checkpoint::SaveOptions;

/// Returns the number of points at the end of a curve whose mean is the metric.
fn tail(points: usize) -> usize {
    points.div_ceil(10).max(1)
}

/// Returns the metrics of all engines.
pub fn metrics() -> DeclaredMetrics {
    vec![
        MetricInfo::new(LOSS, "as the trainer has it", "Loss of the training steps, if the trainer tells it.")
            .lower()
            .reduced_by(Reduce::LastTenth)
            .optional(),
        MetricInfo::new("steps", "steps", "Optimizer steps that the trainer told of."),
        MetricInfo::new("rows", "rows", "Rows that it was given."),
        MetricInfo::new("changed_tensors", "tensors", "Tensors of the model that training changed."),
    ]
    .into()
}

/// Publishes the weights in `folder`, which were trained from `start`, and the report. A declared metric with the name
/// of a curve is the mean of its last tenth.
///
/// Errors: data (no step was done, no weight changed, weights of another shape), invalid (an adapter).
pub fn publish(
    context: &mut StageContext,
    (title, start, save): (&str, &ModelFolder, &SaveOptions),
    declared: &DeclaredMetrics,
    folder: &Path,
    (told, rows): (&TrainerProgress, u64),
) -> Result<()> {
    if told.steps == 0 {
        return Err(Error::data("the trainer ended well without telling of an optimizer step")
            .help("append an event after each step, such as {\"step\": 1, \"steps\": 100}"));
    }
    let (model, changed) = start.with_external_weights(folder).map_err(|e| e.at("what the trainer left"))?;
    if changed == 0 {
        return Err(Error::data(format!("after {} steps the trainer left the weights as they were", told.steps))
            .help("look at its learning rate, and at what it saves"));
    }
    model.save_as(context.output("model")?, save)?;
    for (key, value) in model.metadata() {
        context.describe("model", &key, value);
    }
    let mut report = StageReport::new(title);
    report.summary = format!("{rows} rows, {} optimizer steps.", told.steps);
    let mut found = vec![("steps", told.steps as f64), ("rows", rows as f64), ("changed_tensors", changed as f64)];
    let ends = |metric: &MetricInfo| {
        metric.reduce?;
        let name = metric.name.as_str();
        Some((name.to_string(), told.curves.recent(name, tail(told.curves.series(name).len()))?))
    };
    let ended: Vec<(String, f64)> = declared.metrics.iter().filter_map(ends).collect();
    found.extend(ended.iter().map(|(name, value)| (name.as_str(), *value)));
    for (name, value) in found {
        context.metric(name, value);
        report.metric(name, value);
    }
    let names: Vec<&str> = told.curves.names("").collect();
    for name in names {
        told.curves.add_chart(&mut report, name, "", &[(name, name)]);
    }
    context.write_report("report", report, declared)
}
