//! Merges several reports, with unique metric names.

use std::collections::BTreeMap;
use trainyard_api::report::StageReport;
use trainyard_core::{Comparison, DeclaredMetrics, MetricInfo, Producer};

/// Merges reports. Tables and curves get the title of their report in front. Metrics and comparisons keep their names
/// unless several reports use a name; each then gets the position of its report as a prefix, from 1 (`2.tokens`).
pub fn merge(title: &str, summary: &str, reports: &[StageReport]) -> StageReport {
    let metrics = uses(reports.iter().flat_map(|r| r.metrics.keys()));
    let comparisons = uses(reports.iter().flat_map(|r| r.comparisons.iter().map(|c| &c.metric)));
    let mut joined = StageReport::new(title);
    joined.summary = summary.to_string();
    for (place, report) in reports.iter().enumerate() {
        let numbered =
            |name: &String, uses: usize| if uses > 1 { format!("{}.{name}", place + 1) } else { name.clone() };
        for (name, metric) in &report.metrics {
            joined.metrics.insert(numbered(name, metrics[name]), metric.clone());
        }
        joined.comparisons.extend(report.comparisons.iter().map(|row| {
            let metric = numbered(&row.metric, comparisons[&row.metric]);
            Comparison { metric, ..row.clone() }
        }));
        let titled =
            |title: &str| if title.is_empty() { report.title.clone() } else { format!("{}: {title}", report.title) };
        joined.tables.extend(report.tables.iter().cloned().map(|mut table| {
            table.title = titled(&table.title);
            table
        }));
        joined.curves.extend(report.curves.iter().cloned().map(|mut curve| {
            curve.title = titled(&curve.title);
            curve
        }));
        joined.notes.extend(report.notes.iter().map(|note| titled(note)));
    }
    joined
}

/// Counts the reports that use each name.
fn uses<'a>(names: impl Iterator<Item = &'a String>) -> BTreeMap<String, usize> {
    let mut uses: BTreeMap<String, usize> = BTreeMap::new();
    names.for_each(|name| *uses.entry(name.clone()).or_default() += 1);
    uses
}

/// Declares the metrics of the joined report, from those of its producers. If several producers declare a name and it
/// is optional in one of them, its name in the joined report is unknown before the run, so a check on it belongs to the
/// stage that reports it.
pub fn declared(producers: &[Producer]) -> DeclaredMetrics {
    let open = producers.iter().any(|p| p.declared.as_ref().is_none_or(|d| d.open));
    let of = |list: fn(&DeclaredMetrics) -> &[MetricInfo]| join(producers, list);
    DeclaredMetrics { metrics: of(|d| d.metrics.as_slice()), comparisons: of(|d| d.comparisons.as_slice()), open }
}

fn join(producers: &[Producer], list: fn(&DeclaredMetrics) -> &[MetricInfo]) -> Vec<MetricInfo> {
    let declared_metrics = |p: &Producer| p.declared.as_ref().map(|d| list(d).to_vec()).unwrap_or_default();
    let all: Vec<Vec<MetricInfo>> = producers.iter().map(declared_metrics).collect();
    let mut joined = Vec::new();
    for (place, metrics) in all.iter().enumerate() {
        for metric in metrics {
            let others = all.iter().enumerate().filter(|(other, _)| *other != place);
            let same: Vec<&MetricInfo> =
                others.filter_map(|(_, list)| list.iter().find(|m| m.name == metric.name)).collect();
            if same.is_empty() {
                joined.push(metric.clone());
            } else if !metric.optional && same.iter().any(|m| !m.optional) {
                joined.push(metric.clone().prefixed(&(place + 1).to_string()));
            }
        }
    }
    joined
}

/// Returns a title as lower-case words joined by `_`.
pub fn slug(title: &str) -> String {
    let words: Vec<String> = title
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|w| !w.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    if words.is_empty() { "report".into() } else { words.join("_") }
}
