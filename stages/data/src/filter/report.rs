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

/// Returns the number of edits; `None` if no rule edits.
pub fn edited(counts: &[Count]) -> Option<usize> {
    counts.iter().filter_map(|count| count.edited).reduce(|a, b| a + b)
}

/// Returns the metrics of the stage with rules of these kinds, some of which edit rows.
pub fn metrics<'a>(kinds: impl IntoIterator<Item = &'a str>, edits: bool) -> Vec<MetricInfo> {
    let mut list = vec![
        MetricInfo::new("rows", "rows", "Rows that were judged."),
        MetricInfo::new("kept", "rows", "Rows that no rule rejected."),
        MetricInfo::new("rejected", "rows", "Rows that a rule rejected."),
    ];
    if edits {
        list.push(MetricInfo::new("edited", "edits", "Edits of rows, such as masked personal data."));
    }
    let kinds: BTreeSet<&str> = kinds.into_iter().collect();
    if kinds.contains("judge") {
        list.extend(trainyard_chat::metrics());
    }
    list.extend(kinds.into_iter().map(|kind| {
        MetricInfo::new(format!("rejected_{kind}"), "rows", format!("Rows that the rule `{kind}` rejected."))
    }));
    list
}

pub fn report(total: usize, kept: usize, counts: &[Count]) -> StageReport {
    let mut report = StageReport::new("Filter");
    report.summary = format!("{kept} of {total} rows were kept.");
    report.metric("rows", total as f64).metric("kept", kept as f64).metric("rejected", (total - kept) as f64);
    for (rule, n) in rejected_by_rule(counts) {
        report.metric(format!("rejected_{rule}"), n as f64);
    }
    let edited = edited(counts);
    if let Some(n) = edited {
        report.metric("edited", n as f64);
    }
    let with_edits = edited.map(|_| "edited");
    let mut rules = Table::new("Rules, in order", ["rule", "judged", "rejected"].into_iter().chain(with_edits));
    let mut reasons = Table::new("Reasons", ["rule", "reason", "rows"]);
    for count in counts {
        let numbers = [Some(count.judged), Some(count.rejected()), edited.map(|_| count.edited.unwrap_or(0))];
        let numbers = numbers.into_iter().flatten().map(|n| ReportCell::Number(n as f64));
        rules.row(std::iter::once(ReportCell::text(count.rule)).chain(numbers));
        for (reason, n) in &count.reasons {
            reasons.row([ReportCell::text(count.rule), ReportCell::text(reason), ReportCell::Number(*n as f64)]);
        }
    }
    report.table(rules);
    if !reasons.rows.is_empty() {
        report.table(reasons);
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
