//! One report out of several, without two metrics of one name.

use std::collections::BTreeMap;
use trainyard_api::report::Report;

/// Tables and curves get their report's title in front; metrics keep their names unless two reports use one.
pub fn merge(title: &str, summary: &str, reports: &[Report]) -> Report {
    let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
    for name in reports.iter().flat_map(|r| r.metrics.keys()) {
        *uses.entry(name).or_insert(0) += 1;
    }
    let mut joined = Report::new(title);
    joined.summary = summary.to_string();
    for report in reports {
        let slug = slug(&report.title);
        for (name, metric) in &report.metrics {
            let wanted = if uses[name.as_str()] > 1 { format!("{slug}_{name}") } else { name.clone() };
            let key = free(&joined, wanted);
            joined.metrics.insert(key, *metric);
        }
        let titled = |own: &str| if own.is_empty() { report.title.clone() } else { format!("{}: {own}", report.title) };
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

/// The name itself, or with `_2`, `_3`, … if two reports have one title, too.
fn free(report: &Report, wanted: String) -> String {
    let mut name = wanted.clone();
    let mut n = 2;
    while report.metrics.contains_key(&name) {
        name = format!("{wanted}_{n}");
        n += 1;
    }
    name
}

/// Lower-case words joined by `_`.
pub fn slug(title: &str) -> String {
    let words: Vec<String> = title
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|w| !w.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    if words.is_empty() { "report".into() } else { words.join("_") }
}
