//! What `evaluate` reports: every metric of every model, in all and by level.

use super::config::Config;
use trainyard_core::{Declared, Metric, Producers};

/// A metric that every model may have; `samples` stands for their number.
struct Column {
    name: String,
    unit: &'static str,
    doc: &'static str,
    higher: bool,
    /// Needs drawn samples, not the greedy one alone.
    drawn: bool,
}

/// Under any options.
pub fn any() -> Declared {
    let mut list = counts();
    let columns = columns("<int>", &["<int>".to_string()], true, true);
    list.extend(columns.iter().flat_map(|column| of_model(column, "<model>")));
    list.extend(difference("<model>", "<model>"));
    list.push(failures("<model>"));
    list.into()
}

/// Under these options; as many models as are wired.
pub fn of(config: &Config, producers: &Producers) -> Declared {
    let models = producers.get("models").map_or(&[][..], Vec::as_slice);
    // A fan-out over rows that are not known yet is one producer of any number of models.
    if config.names.is_empty() && models.iter().any(|producer| producer.declared.is_none()) {
        return any();
    }
    let names = config.model_names(models.len());
    let ks: Vec<String> = config.ks().iter().map(ToString::to_string).collect();
    let with_prm = producers.get("prm").is_some_and(|behind| !behind.is_empty());
    let columns = columns(&config.samples.to_string(), &ks, config.samples > 0, with_prm);
    let mut list = counts();
    for (place, name) in names.iter().enumerate() {
        let own = columns.iter().filter(|column| !column.drawn || config.is_sampled(name));
        list.extend(own.flat_map(|column| of_model(column, name)));
        list.extend(names[..place].iter().flat_map(|earlier| difference(name, earlier)));
        list.push(failures(name));
    }
    list.into()
}

fn counts() -> Vec<Metric> {
    vec![
        Metric::new("accuracy", "share", "Greedy accuracy of the last model.").higher(),
        Metric::new("problems", "problems", "Problems that were posed."),
        Metric::new("infrastructure_failures", "rollouts", "Rollouts that the infrastructure broke.").lower(),
    ]
}

fn failures(model: &str) -> Metric {
    let name = format!("infrastructure_failures_{model}");
    Metric::new(name, "rollouts", "Rollouts of this model that the infrastructure broke.").lower()
}

fn columns(samples: &str, ks: &[String], drawn: bool, with_prm: bool) -> Vec<Column> {
    let column = |name: String, unit, doc, higher, drawn| Column { name, unit, doc, higher, drawn };
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
        let voted = "Share of problems whose answer with the largest sum of scores is right.";
        list.push(share(format!("weighted_maj_at_{samples}_min"), voted));
        let best = "Share of problems whose best sample, by the process reward model, is right.";
        list.extend(["min", "product", "last"].map(|how| share(format!("best_of_{samples}_{how}"), best)));
    }
    list.push(column("tool_calls".into(), "calls per rollout", "Tool calls.", false, false));
    list.push(column("tool_errors".into(), "calls per rollout", "Tool calls that failed.", false, false));
    list.push(column("tokens".into(), "tokens per rollout", "Sampled tokens.", false, false));
    list
}

/// In all, by level, and the mean of the levels. Failures may leave too few samples for those that need several.
fn of_model(column: &Column, model: &str) -> Vec<Metric> {
    let name = format!("{}_{model}", column.name);
    let metric = |name: String, doc: String| {
        let metric = Metric::new(name, column.unit, doc);
        let metric = if column.higher { metric.higher() } else { metric };
        if column.drawn { metric.optional() } else { metric }
    };
    vec![
        metric(name.clone(), column.doc.to_string()),
        metric(format!("{name}_level_<int>"), format!("{} Of this level.", column.doc)),
        metric(format!("{name}_mean_of_levels"), format!("{} A mean over levels.", column.doc)),
    ]
}

/// Greedy accuracy of the later model minus that of the earlier one.
fn difference(later: &str, earlier: &str) -> [Metric; 3] {
    let name = format!("difference_{later}_{earlier}");
    let metric = |name: String, doc: &'static str| Metric::new(name, "share", doc).higher().optional();
    [
        metric(name.clone(), "Greedy accuracy of the first minus that of the second, paired by problem."),
        metric(format!("{name}_low"), "Lower end of its 95% interval."),
        metric(format!("{name}_high"), "Upper end of its 95% interval."),
    ]
}
