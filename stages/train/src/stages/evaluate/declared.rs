//! Declares the metrics of `evaluate`: every metric of every model, overall and by level.

use super::answers;
use super::config::EvaluateConfig;
use super::served;
use crate::programs;
use trainyard_core::{DeclaredMetrics, MetricInfo, Producers};

/// Metric that every model may have; `samples` in its name is replaced by their number.
struct MetricTemplate {
    name: String,
    unit: &'static str,
    doc: &'static str,
    higher: bool,
    /// Whether the metric needs drawn samples in addition to the greedy one.
    drawn: bool,
}

impl MetricTemplate {
    /// Returns whether the metric chooses one of several samples, so that it can be compared with a random one.
    fn is_choice(&self) -> bool {
        self.name.starts_with("likeliest_of_") || self.name.starts_with("best_of_")
    }
}

/// Declares the metrics of any options.
pub fn any() -> DeclaredMetrics {
    let mut list = counts();
    let columns = columns("<int>", &["<int>".to_string()], true, true);
    list.extend(columns.iter().flat_map(|column| of_model(column, "<model>")));
    list.extend(columns.iter().filter(|column| column.is_choice()).flat_map(|column| over_avg(column, "<model>")));
    list.extend(difference("difference", "<model>", "<model>"));
    list.extend(twins());
    list.push(without_twins("<model>"));
    list.extend(difference("difference_without_twins", "<model>", "<model>"));
    list.extend([failures("<model>"), answers::of_model("<model>")]);
    list.extend(of_programs("<model>"));
    list.extend(served::metrics("<model>"));
    list.into()
}

/// Declares the metrics of these options, for the wired models.
pub fn of(config: &EvaluateConfig, producers: &Producers) -> DeclaredMetrics {
    let models = producers.get("models").map_or(&[][..], Vec::as_slice);
    // A fan-out over rows that are not known yet is one producer with an unknown number of models.
    if config.names.is_empty() && models.iter().any(|producer| producer.declared.is_none()) {
        return any();
    }
    let names = config.model_names(models.len());
    let ks: Vec<String> = config.ks().iter().map(ToString::to_string).collect();
    let with_prm = producers.get("prm").is_some_and(|list| !list.is_empty());
    let with_training = producers.get("training").is_some_and(|list| !list.is_empty());
    let columns = columns(&config.samples.to_string(), &ks, config.samples > 0, with_prm);
    let mut list = counts();
    if with_training {
        list.extend(twins());
    }
    for (place, name) in names.iter().enumerate() {
        let applicable = columns.iter().filter(|column| !column.drawn || config.is_sampled(name));
        for column in applicable {
            list.extend(of_model(column, name));
            if column.is_choice() {
                list.extend(over_avg(column, name));
            }
        }
        let earlier = &names[..place];
        list.extend(earlier.iter().flat_map(|earlier| difference("difference", name, earlier)));
        if with_training {
            list.push(without_twins(name));
            list.extend(earlier.iter().flat_map(|earlier| difference("difference_without_twins", name, earlier)));
        }
        list.extend([failures(name), answers::of_model(name)]);
        list.extend(of_programs(name));
    }
    list.extend(config.endpoints.keys().flat_map(|name| served::metrics(name)));
    list.into()
}

fn counts() -> Vec<MetricInfo> {
    vec![
        MetricInfo::new("accuracy", "share", "Greedy accuracy of the last model.").higher(),
        MetricInfo::new("problems", "problems", "Problems that were evaluated."),
        MetricInfo::new("infrastructure_failures", "rollouts", "Rollouts that ended with an infrastructure failure.")
            .lower(),
        answers::of_last_model(),
    ]
}

fn failures(model: &str) -> MetricInfo {
    let name = format!("infrastructure_failures_{model}");
    MetricInfo::new(name, "rollouts", "Rollouts of this model that ended with an infrastructure failure.").lower()
}

/// Declares metrics of harness programs.
fn of_programs(model: &str) -> impl Iterator<Item = MetricInfo> {
    programs::declared().map(move |metric| MetricInfo { name: format!("{}_{model}", metric.name), ..metric })
}

fn columns(samples: &str, ks: &[String], drawn: bool, with_prm: bool) -> Vec<MetricTemplate> {
    let column = |name: String, unit, doc, higher, drawn| MetricTemplate { name, unit, doc, higher, drawn };
    let share = |name: String, doc| column(name, "share", doc, true, true);
    let mut list =
        vec![column("accuracy".into(), "share", "Share of problems that the greedy episode solves.", true, false)];
    if drawn {
        list.push(share(format!("avg_at_{samples}"), "Share of the drawn samples that are right."));
        let any = "Unbiased chance that one of so many samples is right.";
        list.extend(ks.iter().map(|k| share(format!("pass_at_{k}"), any)));
        list.push(share(format!("maj_at_{samples}"), "Share of problems whose most frequent answer is right."));
        list.push(share(format!("likeliest_of_{samples}"), "Share of problems whose likeliest sample is right."));
    }
    if drawn && with_prm {
        let voted = "Share of problems for which the answer with the highest total score is right.";
        list.push(share(format!("weighted_maj_at_{samples}_min"), voted));
        let best = "Share of problems whose best sample, by the process reward model, is right.";
        list.extend(["min", "product", "last"].map(|how| share(format!("best_of_{samples}_{how}"), best)));
    }
    list.push(column("tool_calls".into(), "calls per rollout", "Tool calls.", false, false));
    list.push(column("tool_errors".into(), "calls per rollout", "Tool calls that failed.", false, false));
    list.push(column("tokens".into(), "tokens per rollout", "Sampled tokens.", false, false));
    list
}

/// Declares a metric overall, by level, and as the mean of the levels. Failures may leave too few samples for metrics
/// that need several.
fn of_model(column: &MetricTemplate, model: &str) -> Vec<MetricInfo> {
    let name = format!("{}_{model}", column.name);
    let metric = |name: String, doc: String| {
        let metric = MetricInfo::new(name, column.unit, doc);
        let metric = if column.higher { metric.higher() } else { metric };
        if column.drawn { metric.optional() } else { metric }
    };
    vec![
        metric(name.clone(), column.doc.to_string()),
        metric(format!("{name}_level_<int>"), format!("{} On this level.", column.doc)),
        metric(format!("{name}_mean_of_levels"), format!("{} A mean over levels.", column.doc)),
    ]
}

/// Declares the difference between a choice among samples and a random one of them.
fn over_avg(column: &MetricTemplate, model: &str) -> [MetricInfo; 3] {
    let name = format!("{}_over_avg_{model}", column.name);
    with_interval(name, "The chosen sample's accuracy minus that of a random one, paired by problem.")
}

/// Declares the shares of test problems that resemble training problems.
fn twins() -> [MetricInfo; 2] {
    let metric = |name: &'static str, doc: &'static str| MetricInfo::new(name, "share", doc).lower();
    [
        metric(
            "training_twins",
            "Share of problems whose question equals a training question except for numbers and names.",
        ),
        metric("training_repeats", "Share of problems that are training problems."),
    ]
}

fn without_twins(model: &str) -> MetricInfo {
    let name = format!("accuracy_without_twins_{model}");
    MetricInfo::new(name, "share", "Greedy accuracy on the problems without a training twin.").higher().optional()
}

/// Declares the greedy accuracy of the later model minus that of the earlier one.
fn difference(name: &str, later: &str, earlier: &str) -> [MetricInfo; 3] {
    let name = format!("{name}_{later}_{earlier}");
    with_interval(name, "Greedy accuracy of the first minus that of the second, paired by problem.")
}

fn with_interval(name: String, doc: &'static str) -> [MetricInfo; 3] {
    let metric = |name: String, doc: &'static str| MetricInfo::new(name, "share", doc).higher().optional();
    [
        metric(name.clone(), doc),
        metric(format!("{name}_low"), "Lower end of its 95% interval."),
        metric(format!("{name}_high"), "Upper end of its 95% interval."),
    ]
}
