//! Formats differences of configurations, inputs and metrics.

use crate::output::metrics::{number, row_text};
use crate::output::table::table;
use serde_json::Value;
use trainyard_core::Comparison;
use trainyard_views::diff::{
    ComparisonChange, ConfigChange, InputArtifact, InputChange, MetricChange, beginning, differing_parts,
};

/// Maximum metrics of a stage.
const MAX_METRICS: usize = 15;
/// Text of a missing value.
const NONE: &str = "-";

/// Formats differing keys as a table; `None` for an empty list.
pub fn changes(title: &str, changes: &[ConfigChange]) -> Option<String> {
    let row = |change: &ConfigChange| {
        let (a, b) = sides(change);
        vec![change.path.clone(), a, b]
    };
    let rows: Vec<Vec<String>> = changes.iter().map(row).collect();
    (!rows.is_empty()).then(|| table(&[title, "A", "B"], &rows))
}

/// Returns both values on one line each. Long ones begin shortly before their first difference.
pub fn sides(change: &ConfigChange) -> (String, String) {
    let side = |value: &Option<Value>| value.as_ref().map_or_else(|| NONE.to_string(), beginning);
    let (a, b) = match (&change.a, &change.b) {
        (Some(a), Some(b)) => differing_parts(a, b),
        (a, b) => (side(a), side(b)),
    };
    (a.replace('\n', "⏎"), b.replace('\n', "⏎"))
}

/// Formats differing inputs as a table; `None` for an empty list.
pub fn inputs(changes: &[InputChange]) -> Option<String> {
    let side = |artifacts: &[InputArtifact]| {
        let names: Vec<&str> = artifacts.iter().map(|input| input.artifact.as_str()).collect();
        if names.is_empty() { NONE.to_string() } else { names.join(", ") }
    };
    let rows: Vec<Vec<String>> =
        changes.iter().map(|change| vec![change.input.clone(), side(&change.a), side(&change.b)]).collect();
    (!rows.is_empty()).then(|| table(&["inputs", "A", "B"], &rows))
}

/// Formats differing metrics as a table, and counts the equal ones; `None` if no metric differs. The metric `main` is
/// shown also if it is equal.
pub fn metrics(title: &str, all: &[MetricChange], main: Option<&str>) -> Option<String> {
    let differing: Vec<&MetricChange> =
        all.iter().filter(|metric| metric.is_changed() || Some(metric.name.as_str()) == main).collect();
    if differing.is_empty() {
        return None;
    }
    let rows: Vec<Vec<String>> = differing.iter().take(MAX_METRICS).map(|metric| metric_row(metric)).collect();
    let mut text = table(&[title, "A", "B", "B - A"], &rows);
    let (hidden, equal) = (differing.len() - rows.len(), all.len() - differing.len());
    let counts = [(hidden, "more that differ"), (equal, "equal")].into_iter().filter(|(count, _)| *count > 0);
    let counts: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
    if !counts.is_empty() {
        text.push_str(&format!("\n({}; `--format json` lists all)", counts.join(", ")));
    }
    Some(text)
}

fn metric_row(metric: &MetricChange) -> Vec<String> {
    let side = |value: Option<f64>, interval: Option<(f64, f64)>| {
        let interval = interval.map(|(low, high)| format!(" [{}, {}]", number(low), number(high)));
        value.map_or_else(|| NONE.to_string(), |value| number(value) + &interval.unwrap_or_default())
    };
    let difference = metric.difference.map_or_else(|| NONE.to_string(), signed);
    vec![metric.name.clone(), side(metric.a, metric.interval_a), side(metric.b, metric.interval_b), difference]
}

/// Formats a difference with its sign.
fn signed(value: f64) -> String {
    if value > 0.0 { format!("+{}", number(value)) } else { number(value) }
}

/// Formats differing comparisons of the stages; `None` for an empty list.
pub fn comparisons(changes: &[ComparisonChange]) -> Option<String> {
    let side = |name: &str, row: &Option<Comparison>| {
        format!("\n  {name}  {}", row.as_ref().map_or_else(|| NONE.to_string(), row_text))
    };
    let lines: String = changes.iter().map(|change| side("A", &change.a) + &side("B", &change.b)).collect();
    (!lines.is_empty()).then(|| format!("comparisons of the stages that differ:{lines}"))
}
