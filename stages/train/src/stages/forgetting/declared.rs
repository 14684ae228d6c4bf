//! Declares the metrics of `forgetting`.

use super::config::ForgettingConfig;
use trainyard_core::MetricInfo;

/// Declares the metrics of any options.
pub fn any() -> Vec<MetricInfo> {
    let mut list = averages();
    list.extend(gains());
    list.push(cell("<int>", "<task>"));
    list.extend(lost("<task>"));
    list.push(gain("<task>"));
    list
}

/// Declares the metrics of these options.
pub fn of(config: &ForgettingConfig) -> Vec<MetricInfo> {
    let names: Vec<&str> = config.tasks.iter().map(|t| t.name.as_str()).collect();
    let first = usize::from(config.initial.is_none());
    let mut list = averages();
    for after in first..=names.len() {
        list.extend(names.iter().map(|task| cell(&after.to_string(), task)));
    }
    let earlier = &names[..names.len().saturating_sub(1)];
    list.extend(earlier.iter().flat_map(|task| lost(task)));
    if config.initial.is_some() {
        list.extend(gains());
        list.extend(names.iter().map(|task| gain(task)));
    }
    list
}

/// Declares a number with the ends of its 95% interval. The ends are optional, because too few problems have no
/// interval.
fn estimated(metric: MetricInfo) -> [MetricInfo; 3] {
    let end = |name: &str, doc: &'static str| {
        MetricInfo { name: format!("{}_{name}", metric.name), doc: doc.into(), ..metric.clone() }.optional()
    };
    let (low, high) = (end("low", "Lower end of its 95% interval."), end("high", "Upper end of its 95% interval."));
    [metric, low, high]
}

fn averages() -> Vec<MetricInfo> {
    let end = MetricInfo::new("final_accuracy", "share", "Mean of all tasks at the end.").higher();
    let lost = MetricInfo::new(
        "forgetting",
        "share",
        "Value just after training on a task minus its value at the end, a mean over tasks.",
    )
    .lower();
    let best = MetricInfo::new(
        "forgetting_from_best",
        "share",
        "Highest value of a task minus its value at the end, a mean over tasks.",
    )
    .lower();
    [estimated(end).to_vec(), estimated(lost).to_vec(), vec![best]].concat()
}

/// Declares the metrics that need a model from before the first task.
fn gains() -> Vec<MetricInfo> {
    let doc = "Value after training on a task minus its initial value, a mean over tasks.";
    estimated(MetricInfo::new("learned", "share", doc).higher().optional()).to_vec()
}

/// Declares a cell, which is absent if no problem has a value.
fn cell(after: &str, task: &str) -> MetricInfo {
    let name = format!("accuracy_{after}_{task}");
    MetricInfo::new(name, "share", "Value on this task of the model after this number of tasks.").higher().optional()
}

fn lost(task: &str) -> [MetricInfo; 2] {
    [
        MetricInfo::new(
            format!("forgetting_of_{task}"),
            "share",
            "Value just after training on this task minus its value at the end.",
        )
        .lower(),
        MetricInfo::new(
            format!("problems_{task}"),
            "problems",
            "Problems of this task that both models have a value for.",
        ),
    ]
}

fn gain(task: &str) -> MetricInfo {
    MetricInfo::new(format!("learned_of_{task}"), "share", "Value after training on this task minus its initial value.")
        .higher()
}
