//! Compares two models over several training seeds: every table of `results` contains the evaluation of one seed.
//!
//! The difference is the mean of the seeds' mean differences, paired by problem within a seed; its interval is
//! Student's t over seeds. The report contains each seed's difference and the interval of the two-level bootstrap.

use super::metrics::ProblemMetric;
use super::models;
use super::pair_rows::PairRow;
use super::pairs::{ProblemPairs, tables, unit};
use trainyard_api::StageContext;
use trainyard_api::report::{ReportCell, StageReport, Table};
use trainyard_core::error::Context as _;
use trainyard_core::{Chance, Comparison, Error, Result};
use trainyard_learn::statistics::{Difference, PooledEstimate, mean, two_level_bootstrap};

/// Number of resamples of the bootstrap.
const RESAMPLES: usize = 2_000;

/// Compares the models `a` and `b` in every table of the input `results`. Adds the comparison to the context, and
/// tables to the report. Returns both values of every shared problem.
pub fn compare(
    metric: &str,
    (a, b): (&str, &str),
    context: &mut StageContext,
    report: &mut StageReport,
) -> Result<Vec<PairRow>> {
    let parsed = ProblemMetric::parse(metric)?;
    let (mut rows, mut seeds) = (Vec::new(), Vec::new());
    for (place, table) in tables(context)?.into_iter().enumerate() {
        let table = [table];
        let at = || format!("table {} of `results`", place + 1);
        let pairs =
            ProblemPairs::new(models::rows(&table, a).at(at())?, models::rows(&table, b).at(at())?, parsed).at(at())?;
        let difference = pairs.difference(None).ok_or_else(|| {
            Error::data(format!("`{a}` and `{b}` share no problem with a value of `{metric}` in {}", at()))
                .help("evaluate both models on the same problems, with enough samples for the metric")
        })?;
        rows.extend(pairs.rows_of(metric, place));
        seeds.push(difference);
    }
    let of = |value: fn(&Difference) -> f64| seeds.iter().map(value).collect::<Vec<f64>>();
    let differences = of(|d| d.difference.value);
    let interval = PooledEstimate::of(&differences).and_then(|pooled| pooled.interval(0.025)).ok_or_else(|| {
        Error::data("an interval over seeds needs at least two seeds").help("wire the results of at least two seeds")
    })?;
    context.comparison(Comparison {
        a: mean(&of(|d| d.a)),
        b: mean(&of(|d| d.b)),
        difference: mean(&differences),
        low: Some(interval.0),
        high: Some(interval.1),
        n: Some(rows.len() as u64),
        unit: unit(metric),
        ..Comparison::of(metric)
    });
    describe(report, metric, (a, b), &seeds, interval);
    report.note(bootstrap(&rows, seeds.len()));
    Ok(rows)
}

fn describe(report: &mut StageReport, metric: &str, (a, b): (&str, &str), seeds: &[Difference], interval: (f64, f64)) {
    let excludes = interval.0 > 0.0 || interval.1 < 0.0;
    report.summary = format!(
        "Difference of `{metric}` over {} seeds; its 95% interval {} zero.",
        seeds.len(),
        if excludes { "excludes" } else { "includes" }
    );
    let mut table = Table::new(format!("{metric} by seed"), ["table", "problems", a, b, "difference"]);
    for (place, d) in seeds.iter().enumerate() {
        table.row([
            ReportCell::Number((place + 1) as f64),
            ReportCell::Number(d.difference.n as f64),
            ReportCell::number(d.a),
            ReportCell::number(d.b),
            ReportCell::interval(d.difference.value, d.difference.interval()),
        ]);
    }
    report.table(table);
    report.note(
        "Pooled interval: Student's t over seeds. Intervals of single seeds: paired differences, clustered by problem \
         (arXiv 2411.00640).",
    );
}

/// Returns a sentence with the interval of the two-level bootstrap, or with the reason why it is missing.
fn bootstrap(rows: &[PairRow], seeds: usize) -> String {
    let mut differences = vec![Vec::new(); seeds];
    rows.iter().for_each(|row| differences[row.table].push(row.a - row.b));
    let seeds: Vec<&[f64]> = differences.iter().map(Vec::as_slice).collect();
    match two_level_bootstrap(&seeds, RESAMPLES, &Chance::new(0)) {
        Some((low, high)) => format!("Two-level bootstrap over seeds and problems: [{low:.4}, {high:.4}]."),
        None => "Two-level bootstrap: too few seeds.".into(),
    }
}
