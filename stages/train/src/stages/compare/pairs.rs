//! Compares two models on the same problems, from tables of results.
//!
//! Two accuracies with overlapping intervals can still differ significantly, because most of their variance comes from
//! the problems, which they share. Each problem therefore gives one value per model (samples are averaged first), the
//! values are subtracted problem by problem, and the interval is that of paired differences clustered by problem (arXiv
//! 2411.00640).
//!
//! Models without a common problem, and metrics that the results do not contain, are errors.

use super::metrics::{self, ProblemMetric};
use super::pair_rows::PairRow;
use super::several::ModelRow;
use crate::results::{ResultRow, read_results};
use std::collections::BTreeMap;
use trainyard_api::StageContext;
use trainyard_api::report::{ReportCell, StageReport, Table};
use trainyard_core::{Comparison, Error, Result};
use trainyard_learn::statistics::{Difference, paired_difference};

/// Compares two models by their rows. Adds the comparison to the context, and tables to the report. Returns both values
/// of every shared problem.
pub(super) fn compare(
    row: &ModelRow<'_>,
    (a, b): (&str, &str),
    (of_a, of_b): (Vec<&ResultRow>, Vec<&ResultRow>),
    context: &mut StageContext,
    report: &mut StageReport,
) -> Result<Vec<PairRow>> {
    let metric = row.metric;
    let pairs = ProblemPairs::new(of_a, of_b, ProblemMetric::parse(metric)?)?;
    let difference = pairs.difference(None).ok_or_else(|| {
        Error::data(format!("`{a}` and `{b}` share no problem with a value of `{metric}`"))
            .help("evaluate both models on the same problems, with enough samples for the metric")
    })?;
    let (low, high) = difference.difference.interval().ok_or_else(|| {
        Error::data("an interval needs at least two shared problems").help("evaluate on at least two problems")
    })?;
    context.comparison(Comparison {
        a: Some(difference.a),
        b: Some(difference.b),
        difference: Some(difference.difference.value),
        low: Some(low),
        high: Some(high),
        n: Some(difference.difference.n as u64),
        unit: unit(metric),
        ..Comparison::of(row.name)
    });
    describe(report, metric, (a, b), &pairs, &difference);
    Ok(pairs.rows_of(row.name, 0))
}

/// Reads all tables of the input `results`.
pub(super) fn tables(context: &StageContext) -> Result<Vec<Vec<ResultRow>>> {
    context.many("results").iter().map(|table| read_results(&table.parquet())).collect()
}

/// Returns the unit of a metric of models; empty for an unknown metric.
pub(super) fn unit(metric: &str) -> String {
    metrics::declared().iter().find(|m| m.covers(metric)).map(|m| m.unit.to_string()).unwrap_or_default()
}

/// Values of both models for the problems that both have.
pub struct ProblemPairs {
    /// Problem id, level, value of a, value of b; sorted by id.
    rows: Vec<(String, u32, f64, f64)>,
    /// Number of problems for which only one model has a value.
    pub(super) unpaired: usize,
}

impl ProblemPairs {
    /// Joins the values of both models by problem.
    pub fn new<'a>(
        a: impl IntoIterator<Item = &'a ResultRow>,
        b: impl IntoIterator<Item = &'a ResultRow>,
        metric: ProblemMetric,
    ) -> Result<Self> {
        let (a, b): (Vec<_>, Vec<_>) = (a.into_iter().collect(), b.into_iter().collect());
        let levels: BTreeMap<&str, u32> = a.iter().map(|r| (r.problem_id.as_str(), r.level)).collect();
        let (a, b) = (metric.by_problem(&a)?, metric.by_problem(&b)?);
        let rows: Vec<_> = a
            .iter()
            .filter_map(|(id, x)| {
                b.get(id).map(|y| (id.clone(), levels.get(id.as_str()).copied().unwrap_or(0), *x, *y))
            })
            .collect();
        let unpaired = a.len() + b.len() - 2 * rows.len();
        Ok(Self { rows, unpaired })
    }

    /// Returns both values of every problem as rows of the output `pairs`.
    pub(super) fn rows_of(&self, metric: &str, table: usize) -> Vec<PairRow> {
        let row = |(id, _, a, b): &(String, u32, f64, f64)| PairRow {
            metric: metric.to_string(),
            table,
            problem_id: id.clone(),
            a: *a,
            b: *b,
        };
        self.rows.iter().map(row).collect()
    }

    /// Returns the paired difference over all problems, or over those of `level`. `None` without a pair.
    pub fn difference(&self, level: Option<u32>) -> Option<Difference> {
        let rows: Vec<_> = self.rows.iter().filter(|r| level.is_none_or(|l| r.1 == l)).collect();
        let a: Vec<f64> = rows.iter().map(|r| r.2).collect();
        let b: Vec<f64> = rows.iter().map(|r| r.3).collect();
        let ids: Vec<&str> = rows.iter().map(|r| r.0.as_str()).collect();
        paired_difference(&a, &b, &ids)
    }

    fn levels(&self) -> Vec<u32> {
        let mut levels: Vec<u32> = self.rows.iter().map(|r| r.1).collect();
        levels.sort_unstable();
        levels.dedup();
        levels
    }
}

fn describe(report: &mut StageReport, metric: &str, (a, b): (&str, &str), pairs: &ProblemPairs, all: &Difference) {
    let excludes = all.difference.interval().is_some_and(|(low, high)| low > 0.0 || high < 0.0);
    report.summary = format!(
        "Difference of `{metric}` on {} shared problems; its 95% interval {} zero.",
        all.difference.n,
        if excludes { "excludes" } else { "includes" }
    );
    let mut table = Table::new(format!("{metric} by level"), ["level", "problems", a, b, "difference"]);
    let row = |label: String, d: &Difference| {
        [
            ReportCell::text(label),
            ReportCell::Number(d.difference.n as f64),
            ReportCell::number(d.a),
            ReportCell::number(d.b),
            ReportCell::interval(d.difference.value, d.difference.interval()),
        ]
    };
    for level in pairs.levels() {
        if let Some(d) = pairs.difference(Some(level)) {
            table.row(row(level.to_string(), &d));
        }
    }
    table.row(row("all".into(), all));
    report.table(table);
    report.note(
        "Interval: paired differences, clustered by problem (arXiv 2411.00640); \
         samples of a problem are averaged first.",
    );
    if pairs.unpaired > 0 {
        report.note(format!(
            "{} problems have a value for one model only (infrastructure failures, or other samples) and are left out.",
            pairs.unpaired
        ));
    }
}
