//! Shows what the rules of a filter did with its rows: how many each judged, edited and rejected, why, and examples.
//! Everything is in the report of the stage.

use crate::find::ResolvedOutput;
use crate::report;
use serde::{Deserialize, Serialize};
use std::iter::Peekable;
use std::slice::Iter;
use trainyard_api::filter_tables::{EXAMPLES, FILTER, REASONS, REPORT, RULES};
use trainyard_api::report::{ReportCell, StageReport, Table};
use trainyard_core::{Error, Result};
use trainyard_store::Store;

/// Way of rows through the rules of a filter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FilterFlow {
    /// Number of rows that were read.
    pub rows: u64,
    /// Number of rows that an earlier stage had rejected, which no rule judged.
    pub rejected_before: u64,
    /// Number of rows that no rule rejected.
    pub kept: u64,
    /// Number of rows that could not be read, and are in no output.
    pub unreadable: u64,
    /// Rules, in order.
    pub rules: Vec<RuleFlow>,
}

/// Way of rows through one rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleFlow {
    /// Kind of the rule.
    pub rule: String,
    /// Number of rows that the rule judged.
    pub judged: u64,
    /// Number of rows that the rule rejected.
    pub rejected: u64,
    /// Number of edits; null if the rule edits none.
    pub edited: Option<u64>,
    /// Reasons with their numbers of rows.
    pub reasons: Vec<(String, u64)>,
    /// First rejected rows of each reason.
    pub examples: Vec<RuleExample>,
}

impl RuleFlow {
    /// Returns the number of rows that the rule kept.
    pub fn kept(&self) -> u64 {
        self.judged.saturating_sub(self.rejected)
    }
}

/// Rejected row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleExample {
    /// Code of the reason.
    pub reason: String,
    /// Id of the row.
    pub row: String,
    /// Reason for this row without its code.
    pub detail: String,
}

/// Returns whether an output is of a filter.
pub fn is_of_filter(found: &ResolvedOutput) -> bool {
    found.manifest.kind == FILTER && found.manifest.outputs.contains_key(REPORT)
}

/// Shows the rules of the filter that made an output. Errors: invalid (another kind of stage), those of reading its
/// report.
pub async fn show(store: &Store, found: &ResolvedOutput) -> Result<FilterFlow> {
    let output = found.manifest.outputs.get(REPORT).filter(|_| is_of_filter(found));
    let output = output.ok_or_else(|| {
        Error::invalid(format!("`{}` has no rules that reject rows", found.manifest.kind))
            .help(format!("open an output of a stage of kind `{FILTER}`"))
    })?;
    Ok(flow(&report::read(store, &found.manifest, output).await?))
}

fn flow(report: &StageReport) -> FilterFlow {
    let metric = |name: &str| report.metrics.get(name).map_or(0, |metric| count(metric.value));
    let (mut reasons, mut examples) =
        (rows(report, REASONS).iter().peekable(), rows(report, EXAMPLES).iter().peekable());
    let rules = table(report, RULES);
    let of_rule = |row: &Vec<ReportCell>| {
        let of = |column: &str| rules.and_then(|table| cell(table, row, column));
        let (rule, rejected) = (of("rule").map(text).unwrap_or_default(), of("rejected").map_or(0, number));
        let reasons = reasons_of(&mut reasons, &rule, rejected);
        RuleFlow {
            judged: of("judged").map_or(0, number),
            rejected,
            edited: of("edited").map(number).filter(|edited| *edited > 0),
            examples: examples_of(&mut examples, &rule, &reasons),
            reasons,
            rule,
        }
    };
    let flows: Vec<RuleFlow> = rows(report, RULES).iter().map(of_rule).collect();
    let rejected: u64 = flows.iter().map(|rule| rule.rejected).sum();
    FilterFlow {
        rows: metric("rows"),
        rejected_before: metric("rejected").saturating_sub(rejected),
        kept: metric("kept"),
        unreadable: metric("unreadable"),
        rules: flows,
    }
}

/// Takes the reasons of a rule: the next rows that add up to its rejected rows. A rule may be in the list twice.
fn reasons_of(all: &mut Peekable<Iter<'_, Vec<ReportCell>>>, rule: &str, rejected: u64) -> Vec<(String, u64)> {
    let (mut reasons, mut sum) = (Vec::new(), 0);
    while sum < rejected
        && let Some(row) = all.next_if(|row| row.first().map(text).as_deref() == Some(rule))
    {
        let rows = row.get(2).map_or(0, number);
        sum += rows;
        reasons.push((row.get(1).map(text).unwrap_or_default(), rows));
    }
    reasons
}

/// Takes the examples of a rule: the next rows with its reasons, which are sorted.
fn examples_of(
    all: &mut Peekable<Iter<'_, Vec<ReportCell>>>,
    rule: &str,
    reasons: &[(String, u64)],
) -> Vec<RuleExample> {
    let mut examples: Vec<RuleExample> = Vec::new();
    let part = |row: &Vec<ReportCell>, at: usize| row.get(at).map(text).unwrap_or_default();
    loop {
        let last = examples.last().map(|example| example.reason.clone()).unwrap_or_default();
        let is_next = |row: &&Vec<ReportCell>| {
            let reason = part(row, 1);
            part(row, 0) == rule && reason >= last && reasons.iter().any(|(known, _)| *known == reason)
        };
        let Some(row) = all.next_if(is_next) else { return examples };
        examples.push(RuleExample { reason: part(row, 1), row: part(row, 2), detail: part(row, 3) });
    }
}

fn table<'r>(report: &'r StageReport, title: &str) -> Option<&'r Table> {
    report.tables.iter().find(|table| table.title == title)
}

fn rows<'r>(report: &'r StageReport, title: &str) -> &'r [Vec<ReportCell>] {
    table(report, title).map_or(&[], |table| table.rows.as_slice())
}

fn cell<'r>(table: &Table, row: &'r [ReportCell], column: &str) -> Option<&'r ReportCell> {
    row.get(table.columns.iter().position(|name| name == column)?)
}

fn text(cell: &ReportCell) -> String {
    match cell {
        ReportCell::Text(text) => text.clone(),
        _ => String::new(),
    }
}

fn number(cell: &ReportCell) -> u64 {
    match cell {
        ReportCell::Number(value) => count(*value),
        _ => 0,
    }
}

fn count(value: f64) -> u64 {
    value.max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[&str]) -> Vec<ReportCell> {
        let cell = |cell: &&str| cell.parse().map_or_else(|_| ReportCell::text(*cell), ReportCell::Number);
        cells.iter().map(cell).collect()
    }

    fn filled(title: &str, columns: &[&str], rows: &[&[&str]]) -> Table {
        let mut table = Table::new(title, columns.iter().copied());
        rows.iter().for_each(|cells| {
            table.row(row(cells));
        });
        table
    }

    #[test]
    fn rules_have_their_own_reasons_and_examples() {
        let mut report = StageReport::new("Filter");
        report.metric("rows", 100.0).metric("kept", 60.0).metric("rejected", 40.0).metric("unreadable", 2.0);
        let rules: &[&[&str]] =
            &[&["format", "95", "10", "0"], &["language", "85", "20", "0"], &["format", "65", "5", "7"]];
        report.table(filled(RULES, &["rule", "judged", "rejected", "edited"], rules));
        let reasons: &[&[&str]] = &[
            &["format", "bad_call", "4"],
            &["format", "no_answer", "6"],
            &["language", "other", "20"],
            &["format", "bad_call", "5"],
        ];
        report.table(filled(REASONS, &["rule", "reason", "rows"], reasons));
        let examples: &[&[&str]] = &[
            &["format", "bad_call", "a", "x"],
            &["format", "no_answer", "b", "y"],
            &["language", "other", "c", "z"],
            &["format", "bad_call", "d", "w"],
        ];
        report.table(filled(EXAMPLES, &["rule", "reason", "row", "detail"], examples));
        let found = flow(&report);
        assert_eq!((found.rows, found.rejected_before, found.kept, found.unreadable), (100, 5, 60, 2));
        let numbers: Vec<_> =
            found.rules.iter().map(|r| (r.rule.as_str(), r.judged, r.rejected, r.kept(), r.edited)).collect();
        let expected = [("format", 95, 10, 85, None), ("language", 85, 20, 65, None), ("format", 65, 5, 60, Some(7))];
        assert_eq!(numbers, expected);
        let reasons: Vec<usize> = found.rules.iter().map(|rule| rule.reasons.len()).collect();
        assert_eq!(reasons, [2, 1, 1]);
        let rows: Vec<Vec<&str>> =
            found.rules.iter().map(|rule| rule.examples.iter().map(|e| e.row.as_str()).collect()).collect();
        assert_eq!(rows, [vec!["a", "b"], vec!["c"], vec!["d"]]);
    }

    #[test]
    fn a_report_without_tables_has_no_rules() {
        let found = flow(&StageReport::new("Filter"));
        assert_eq!((found.rules.len(), found.rows), (0, 0));
    }
}
