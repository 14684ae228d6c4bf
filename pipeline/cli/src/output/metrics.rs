//! Selects and formats the metrics on the line of a stage.
//!
//! A stage reports dozens of metrics, but a line shows only four: first the main metrics of the stage, with their
//! initial values, then metrics that show whether the numbers can be trusted.

use std::collections::BTreeMap;
use trainyard_core::Comparison;

/// Maximum number of metrics on one line.
const MAX_METRICS: usize = 4;
/// Metrics that precede all others, in this order.
const LEADING: [&str; 12] = [
    "validation_accuracy",
    "accuracy",
    "validation_loss",
    "reward_mean",
    "kl",
    "loss",
    "demonstrations",
    "problems",
    "kept",
    "dropped",
    "rows",
    "steps",
];

/// Formats metrics as `  validation_accuracy 0.770→0.910  reward_mean 0.749`, with the main metric first. If an
/// evaluation compares several `models`, only their accuracies are shown. A stage with comparisons and without a main
/// metric shows its first comparisons.
pub fn line(
    metrics: &BTreeMap<String, f64>,
    comparisons: &[Comparison],
    main: Option<&str>,
    models: &[String],
) -> String {
    let accuracies: Vec<(&str, String)> = models
        .iter()
        .filter_map(|name| Some((name.as_str(), number(*metrics.get(&format!("accuracy_{name}"))?))))
        .collect();
    if accuracies.len() > 1 {
        let values: String = accuracies.iter().map(|(name, value)| format!(" {name} {value}")).collect();
        return format!("  accuracy:{values}");
    }
    if main.is_none() && !comparisons.is_empty() {
        return comparisons.iter().take(MAX_METRICS).map(|row| format!("  {}", row_text(row))).collect();
    }
    chosen(metrics, main).into_iter().filter_map(|name| named(metrics, name)).map(|text| format!("  {text}")).collect()
}

/// Formats a comparison as `accuracy 0.500 → 0.700 [0.100, 0.300]`: b, a, and the interval of the difference. A missing
/// number is `none`.
pub fn row_text(row: &Comparison) -> String {
    let side = |value: Option<f64>| value.map_or_else(|| "none".to_string(), number);
    let interval = row.low.zip(row.high).map(|(low, high)| format!(" [{}, {}]", number(low), number(high)));
    format!("{} {} → {}{}", row.metric, side(row.b), side(row.a), interval.unwrap_or_default())
}

fn chosen<'m>(metrics: &'m BTreeMap<String, f64>, main: Option<&str>) -> Vec<&'m str> {
    let mut names: Vec<&str> = Vec::new();
    let first = main.into_iter().chain(LEADING).filter_map(|name| metrics.get_key_value(name));
    let all = first.chain(metrics.iter()).map(|(name, _)| name.as_str()).filter(|name| !is_start(metrics, name));
    for name in all {
        if !names.contains(&name) && names.len() < MAX_METRICS {
            names.push(name);
        }
    }
    names
}

/// Returns whether a metric is the initial value of another metric, which is shown with that metric.
fn is_start(metrics: &BTreeMap<String, f64>, name: &str) -> bool {
    name.strip_suffix("_initial").is_some_and(|of| metrics.contains_key(of))
}

/// Formats one metric as `accuracy 0.770→0.910`, with its initial value if there is one; `None` if it is missing.
pub fn named(metrics: &BTreeMap<String, f64>, name: &str) -> Option<String> {
    metrics.contains_key(name).then(|| format!("{name} {}", with_start(metrics, name)))
}

fn with_start(metrics: &BTreeMap<String, f64>, name: &str) -> String {
    let value = metrics.get(name).copied().unwrap_or(f64::NAN);
    match metrics.get(&format!("{name}_initial")) {
        Some(start) => format!("{}→{}", number(*start), number(value)),
        None => number(value),
    }
}

/// Formats integers without decimals, other numbers with three decimals, and small numbers with two significant digits.
pub fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        format!("{value}")
    } else if value.abs() < 0.001 {
        format!("{value:.1e}")
    } else {
        format!("{value:.3}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(list: &[(&str, f64)]) -> BTreeMap<String, f64> {
        list.iter().map(|(name, value)| ((*name).to_string(), *value)).collect()
    }

    #[test]
    fn main_metric_comes_first_with_its_initial_value() {
        let rl = metrics(&[
            ("advantage_mean", 0.1),
            ("kl", 0.004),
            ("reward_mean", 0.749),
            ("reward_mean_initial", 0.5),
            ("turns", 2.0),
            ("validation_accuracy", 0.91),
            ("validation_accuracy_initial", 0.77),
        ]);
        assert_eq!(
            line(&rl, &[], Some("reward_mean"), &[]),
            "  reward_mean 0.500→0.749  validation_accuracy 0.770→0.910  kl 0.004  advantage_mean 0.100"
        );
        assert_eq!(
            line(&rl, &[], Some("validation_accuracy"), &[]),
            "  validation_accuracy 0.770→0.910  reward_mean 0.500→0.749  kl 0.004  advantage_mean 0.100"
        );
        assert_eq!(named(&rl, "validation_accuracy").as_deref(), Some("validation_accuracy 0.770→0.910"));
        assert_eq!((named(&rl, "kl").as_deref(), named(&rl, "absent")), (Some("kl 0.004"), None));
        assert_eq!(line(&metrics(&[("b", 2.0), ("a", 1e-4)]), &[], Some("absent"), &[]), "  a 1.0e-4  b 2");
    }

    #[test]
    fn comparisons_show_both_sides_and_the_interval() {
        let sides = |name: &str| Comparison { a: Some(0.7), b: Some(0.5), ..Comparison::of(name) };
        let accuracy = Comparison { low: Some(0.1), high: Some(0.3), ..sides("accuracy") };
        let forks = Comparison { a: Some(7.0), ..Comparison::of("forks") };
        assert_eq!(
            line(&BTreeMap::new(), &[accuracy.clone(), forks], None, &[]),
            "  accuracy 0.500 → 0.700 [0.100, 0.300]  forks none → 7"
        );
        let many = ["a", "b", "c", "d", "e"].map(sides);
        assert_eq!(line(&BTreeMap::new(), &many, None, &[]).matches('→').count(), 4);
        let values = metrics(&[("accuracy", 0.7)]);
        assert_eq!(line(&values, &[accuracy], Some("accuracy"), &[]), "  accuracy 0.700");
    }

    #[test]
    fn evaluation_shows_the_accuracy_of_each_model() {
        let all =
            metrics(&[("accuracy", 0.89), ("accuracy_rl", 0.89), ("accuracy_sft", 0.745), ("accuracy_untrained", 0.0)]);
        let names = ["untrained", "sft", "rl"].map(String::from);
        assert_eq!(line(&all, &[], Some("accuracy"), &names), "  accuracy: untrained 0 sft 0.745 rl 0.890");
    }
}
