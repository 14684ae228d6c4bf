//! Builds the report of `data/filter`: counts by rule and by reason, examples, and the numbers by which rules judged.

use super::verdicts::{Count, RejectedExample};
use crate::row_files::UnreadableRows;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_api::filter_tables::{EXAMPLES, REASONS, RULES};
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
        MetricInfo::new("unreadable", "rows", "Rows that could not be read (`on_error: skip`); they are in no output."),
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

/// Returns the report on `total` rows, of which `kept` were kept. `unreadable` are the rows that were left
/// out.
pub fn report(total: usize, kept: usize, counts: &[Count], unreadable: &UnreadableRows) -> StageReport {
    let mut report = StageReport::new("Filter");
    report.summary = format!("{kept} of {total} rows were kept.");
    report.metric("rows", total as f64).metric("kept", kept as f64).metric("rejected", (total - kept) as f64);
    report.metric("unreadable", unreadable.count as f64);
    for (rule, n) in rejected_by_rule(counts) {
        report.metric(format!("rejected_{rule}"), n as f64);
    }
    let edited = edited(counts);
    if let Some(n) = edited {
        report.metric("edited", n as f64);
    }
    report.table(rules(counts, edited.is_some())).table(takers(total, kept, counts));
    for table in [reasons(counts), examples(counts), measured(counts)] {
        if !table.rows.is_empty() {
            report.table(table);
        }
    }
    if unreadable.count > 0 {
        let mut rows = Table::new("Rows that could not be read", ["error"]);
        for error in &unreadable.first {
            rows.row([ReportCell::text(error.to_string())]);
        }
        report.table(rows);
    }
    report.note("A row is judged until a rule rejects it; the rules after that do not see it.");
    report
}

fn rules(counts: &[Count], with_edits: bool) -> Table {
    let edited = with_edits.then_some("edited");
    let mut table = Table::new(RULES, ["rule", "judged", "rejected"].into_iter().chain(edited));
    for count in counts {
        let edited = with_edits.then(|| number(count.edited.unwrap_or(0)));
        let numbers = [number(count.judged), number(count.rejected())].into_iter().chain(edited);
        table.row(std::iter::once(ReportCell::text(count.rule)).chain(numbers));
    }
    table
}

/// Returns the rows by the rule that rejected them, each with its share of all rows.
fn takers(total: usize, kept: usize, counts: &[Count]) -> Table {
    let mut table = Table::new("Rows by the rule that rejected them first", ["rejected by", "rows", "share of all"]);
    let mut row = |name: &str, rows: usize| {
        table.row([ReportCell::text(name), number(rows), ReportCell::number(rows as f64 / total as f64)]);
    };
    let rejected: usize = counts.iter().map(Count::rejected).sum();
    let before = total.saturating_sub(kept + rejected);
    if before > 0 {
        row("(an earlier stage)", before);
    }
    for count in counts {
        row(count.rule, count.rejected());
    }
    row("(no rule)", kept);
    table
}

fn reasons(counts: &[Count]) -> Table {
    let mut table = Table::new(REASONS, ["rule", "reason", "rows"]);
    for count in counts {
        for (reason, n) in &count.reasons {
            table.row([ReportCell::text(count.rule), ReportCell::text(reason), number(*n)]);
        }
    }
    table
}

fn examples(counts: &[Count]) -> Table {
    let mut table = Table::new(EXAMPLES, ["rule", "reason", "row", "detail"]);
    for count in counts {
        for (reason, rows) in &count.examples {
            for RejectedExample { row, detail } in rows {
                let detail = if detail.is_empty() { ReportCell::Empty } else { ReportCell::text(detail) };
                table.row([ReportCell::text(count.rule), ReportCell::text(*reason), ReportCell::text(row), detail]);
            }
        }
    }
    table
}

fn measured(counts: &[Count]) -> Table {
    let mut table = Table::new("Numbers by which rules judged", ["rule", "number", "from", "to", "count"]);
    for (count, measured) in counts.iter().filter_map(|count| Some((count, count.measured.as_ref()?))) {
        for bucket in measured.values.buckets() {
            let bounds = [bucket.low, bucket.high].map(ReportCell::number);
            let names = [ReportCell::text(count.rule), ReportCell::text(measured.name)];
            table.row(names.into_iter().chain(bounds).chain([ReportCell::Number(bucket.count as f64)]));
        }
    }
    table
}

fn number(n: usize) -> ReportCell {
    ReportCell::Number(n as f64)
}

/// Returns `rule (reason): n` for the five most frequent reasons, joined by commas.
pub fn first_reasons(counts: &[Count]) -> String {
    let mut all: Vec<(usize, String)> =
        counts.iter().flat_map(|c| c.reasons.iter().map(|(r, n)| (*n, format!("{} ({r}): {n}", c.rule)))).collect();
    all.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    all.truncate(5);
    all.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(", ")
}
