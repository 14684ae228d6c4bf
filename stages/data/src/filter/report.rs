//! Builds the report of `data/filter`: counts by rule and by reason.

use super::verdicts::Count;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_api::report::{ReportCell, StageReport, Table};
use trainyard_core::MetricInfo;

/// Returns the number of rejected rows by rule. A rule listed twice is summed.
pub fn rejected_by_rule(counts: &[Count]) -> BTreeMap<&'static str, usize> {
    let mut by_rule = BTreeMap::new();
    for count in counts {
        *by_rule.entry(count.rule).or_insert(0) += count.rejected();
    }
    by_rule
}

/// Returns the metrics of the stage with rules of these kinds.
pub fn metrics<'a>(kinds: impl IntoIterator<Item = &'a str>) -> Vec<MetricInfo> {
    let mut list = vec![
        MetricInfo::new("rows", "rows", "Rows that were judged."),
        MetricInfo::new("kept", "rows", "Rows that no rule rejected."),
        MetricInfo::new("rejected", "rows", "Rows that a rule rejected."),
        MetricInfo::new("unreadable", "rows", "Rows that could not be read (`on_error: skip`); they are in no output."),
    ];
    let kinds: BTreeSet<&str> = kinds.into_iter().collect();
    if kinds.contains("judge") {
        list.extend(trainyard_chat::metrics());
    }
    list.extend(kinds.into_iter().map(|kind| {
        MetricInfo::new(format!("rejected_{kind}"), "rows", format!("Rows that the rule `{kind}` rejected."))
    }));
    list
}

/// Rows that the report names.
const NAMED_ROWS: usize = 10;

/// Returns the report. `unreadable` are the errors of rows that were left out.
pub fn report(total: usize, kept: usize, counts: &[Count], unreadable: &[String]) -> StageReport {
    let mut report = StageReport::new("Filter");
    report.summary = format!("{kept} of {total} rows were kept.");
    report.metric("rows", total as f64).metric("kept", kept as f64).metric("rejected", (total - kept) as f64);
    report.metric("unreadable", unreadable.len() as f64);
    for (rule, n) in rejected_by_rule(counts) {
        report.metric(format!("rejected_{rule}"), n as f64);
    }
    let mut rules = Table::new("Rules, in order", ["rule", "judged", "rejected"]);
    let mut reasons = Table::new("Reasons", ["rule", "reason", "rows"]);
    for count in counts {
        rules.row([
            ReportCell::text(count.rule),
            ReportCell::Number(count.judged as f64),
            ReportCell::Number(count.rejected() as f64),
        ]);
        for (reason, n) in &count.reasons {
            reasons.row([ReportCell::text(count.rule), ReportCell::text(reason), ReportCell::Number(*n as f64)]);
        }
    }
    report.table(rules);
    if !reasons.rows.is_empty() {
        report.table(reasons);
    }
    if !unreadable.is_empty() {
        let mut rows = Table::new("Rows that could not be read", ["error"]);
        for error in unreadable.iter().take(NAMED_ROWS) {
            rows.row([ReportCell::text(error)]);
        }
        report.table(rows);
    }
    report.note("A row is judged until a rule rejects it; the rules after that do not see it.");
    report
}

/// Returns `rule (reason): n` for the five most frequent reasons, joined by commas.
pub fn first_reasons(counts: &[Count]) -> String {
    let mut all: Vec<(usize, String)> =
        counts.iter().flat_map(|c| c.reasons.iter().map(|(r, n)| (*n, format!("{} ({r}): {n}", c.rule)))).collect();
    all.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    all.truncate(5);
    all.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(", ")
}
