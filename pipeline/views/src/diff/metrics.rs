//! Compares the metrics of two manifests or stages.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use trainyard_core::Comparison;

/// Metric that one side or both have.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct MetricChange {
    /// Metric name.
    pub name: String,
    /// Value of A.
    pub a: Option<f64>,
    /// Value of B.
    pub b: Option<f64>,
    /// B minus A, if both have a value.
    pub difference: Option<f64>,
    /// Lower and upper end of the interval of A's value: its metrics `NAME_low` and `NAME_high`.
    pub interval_a: Option<(f64, f64)>,
    /// Lower and upper end of the interval of B's value.
    pub interval_b: Option<(f64, f64)>,
}

impl MetricChange {
    /// Returns whether the sides differ in the value or its interval.
    pub fn is_changed(&self) -> bool {
        self.a != self.b || self.interval_a != self.interval_b
    }
}

/// Comparison of a manifest that differs from the other one's, or that only one has.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ComparisonChange {
    /// Name of the compared metric.
    pub metric: String,
    /// Comparison in A.
    pub a: Option<Comparison>,
    /// Comparison in B.
    pub b: Option<Comparison>,
}

type Metrics = BTreeMap<String, f64>;

/// Compares all metrics: `main` first, then by name. Ends of intervals are part of their metric.
pub fn metric_changes(a: &Metrics, b: &Metrics, main: Option<&str>) -> Vec<MetricChange> {
    let mut names: Vec<&str> = a.keys().chain(b.keys()).map(String::as_str).collect();
    names.sort_by_key(|name| (Some(*name) != main, *name));
    names.dedup();
    // An end without its metric on one of the sides is listed like a metric.
    let is_end = |name: &str| [a, b].iter().all(|side| !side.contains_key(name) || ends_interval(side, name));
    names.into_iter().filter(|name| !is_end(name)).map(|name| metric_change(a, b, name)).collect()
}

fn metric_change(a: &Metrics, b: &Metrics, name: &str) -> MetricChange {
    let (value_a, value_b) = (a.get(name).copied(), b.get(name).copied());
    MetricChange {
        name: name.to_string(),
        a: value_a,
        b: value_b,
        difference: value_a.zip(value_b).map(|(a, b)| b - a),
        interval_a: interval(a, name),
        interval_b: interval(b, name),
    }
}

fn interval(side: &Metrics, name: &str) -> Option<(f64, f64)> {
    let end = |end: &str| side.get(&format!("{name}_{end}")).copied();
    side.get(name).and(end("low").zip(end("high")))
}

fn ends_interval(side: &Metrics, name: &str) -> bool {
    let of = name.strip_suffix("_low").or_else(|| name.strip_suffix("_high"));
    of.is_some_and(|of| interval(side, of).is_some())
}

/// Returns the comparisons that differ, by metric.
pub fn comparison_changes(a: &[Comparison], b: &[Comparison]) -> Vec<ComparisonChange> {
    let find = |side: &[Comparison], metric: &str| side.iter().find(|row| row.metric == metric).cloned();
    let mut metrics: Vec<&str> = a.iter().chain(b).map(|row| row.metric.as_str()).collect();
    metrics.sort_unstable();
    metrics.dedup();
    let change = |metric: &str| ComparisonChange { metric: metric.to_string(), a: find(a, metric), b: find(b, metric) };
    metrics.into_iter().map(change).filter(|change| change.a != change.b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metrics(list: &[(&str, f64)]) -> Metrics {
        list.iter().map(|(name, value)| ((*name).to_string(), *value)).collect()
    }

    #[test]
    fn the_main_metric_is_first_and_has_its_interval() {
        let a = metrics(&[("kl", 0.5), ("reward", 1.0), ("reward_low", 0.75), ("reward_high", 1.25), ("turns", 2.0)]);
        let b = metrics(&[("kl", 0.75), ("loss", 3.0), ("reward", 1.5), ("turns", 2.0)]);
        let found = metric_changes(&a, &b, Some("reward"));
        let names: Vec<&str> = found.iter().map(|change| change.name.as_str()).collect();
        assert_eq!(names, ["reward", "kl", "loss", "turns"]);
        let reward = &found[0];
        assert_eq!((reward.a, reward.b, reward.difference), (Some(1.0), Some(1.5), Some(0.5)));
        assert_eq!((reward.interval_a, reward.interval_b), (Some((0.75, 1.25)), None));
        assert_eq!((found[2].a, found[2].b, found[2].difference), (None, Some(3.0), None));
        assert!(found[1].is_changed() && !found[3].is_changed());
    }

    #[test]
    fn an_end_without_its_metric_is_a_metric() {
        let a = metrics(&[("memory_low", 1.0), ("x", 1.0), ("x_low", 0.0), ("x_high", 2.0)]);
        let names = |a: &Metrics, b: &Metrics| -> Vec<String> {
            metric_changes(a, b, None).into_iter().map(|change| change.name).collect()
        };
        assert_eq!(names(&a, &a), ["memory_low", "x"]);
        assert_eq!(names(&a, &metrics(&[("x_low", 0.5)])), ["memory_low", "x", "x_low"]);
    }

    #[test]
    fn comparisons_that_differ_are_listed() {
        let row = |metric: &str, a: f64| Comparison { a: Some(a), ..Comparison::of(metric) };
        let found = comparison_changes(&[row("x", 1.0), row("y", 1.0)], &[row("y", 1.0), row("z", 2.0), row("x", 3.0)]);
        let expected = [
            ComparisonChange { metric: "x".into(), a: Some(row("x", 1.0)), b: Some(row("x", 3.0)) },
            ComparisonChange { metric: "z".into(), a: None, b: Some(row("z", 2.0)) },
        ];
        assert_eq!(found, expected);
    }
}
