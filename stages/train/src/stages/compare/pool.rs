//! Compares two models, or two arms over several training seeds.
//!
//! The seeds of an arm are the instances of the axis `seed`, or with `pool` the tables of `results`. The difference is
//! the mean of the seeds' mean differences, paired by problem within a seed; its interval is Student's t over seeds.
//! The report contains each seed's difference and the interval of the two-level bootstrap.

use super::metrics::ProblemMetric;
use super::models::{self, NamedModel};
use super::pair_rows::PairRow;
use super::pairs::{self, ProblemPairs, tables, unit};
use super::several::ModelRow;
use crate::results::ResultRow;
use trainyard_api::StageContext;
use trainyard_api::report::{ReportCell, StageReport, Table};
use trainyard_core::error::Context as _;
use trainyard_core::{Chance, Comparison, Error, Result};
use trainyard_learn::statistics::{Difference, PooledEstimate, mean, two_level_bootstrap};

/// Number of resamples of the bootstrap.
const RESAMPLES: usize = 2_000;

/// Rows of both sides for one seed.
struct SeedRows<'t> {
    /// Seed, or place of the table.
    label: String,
    /// Position in messages.
    at: String,
    a: Vec<&'t ResultRow>,
    b: Vec<&'t ResultRow>,
}

/// Compares the models or arms `a` and `b` of the input `results`; with `by_table` every table is one seed. Adds the
/// comparison to the context, and tables to the report. Returns both values of every shared problem.
pub fn compare(
    row: &ModelRow<'_>,
    names: (&str, &str),
    by_table: bool,
    context: &mut StageContext,
    report: &mut StageReport,
) -> Result<Vec<PairRow>> {
    let tables = tables(context)?;
    if by_table {
        return pooled(row, names, ("table", &of_tables(&tables, names)?), context, report);
    }
    let known = models::names(&tables);
    match (models::find(&known, names.0)?, models::find(&known, names.1)?) {
        (NamedModel::One(a), NamedModel::One(b)) => {
            let rows = (models::rows_of(&tables, &a), models::rows_of(&tables, &b));
            pairs::compare(row, names, rows, context, report)
        }
        (a, b) => pooled(row, names, ("seed", &of_axis(&tables, names, (&a, &b))?), context, report),
    }
}

/// Returns the rows of both models in every table.
fn of_tables<'t>(tables: &'t [Vec<ResultRow>], (a, b): (&str, &str)) -> Result<Vec<SeedRows<'t>>> {
    let of = |(place, table): (usize, &'t Vec<ResultRow>)| {
        let table = std::slice::from_ref(table);
        let at = format!("table {} of `results`", place + 1);
        let (a, b) = (models::rows(table, a).at(&at)?, models::rows(table, b).at(&at)?);
        Ok(SeedRows { label: (place + 1).to_string(), at, a, b })
    };
    tables.iter().enumerate().map(of).collect()
}

/// Returns the rows of both arms for every seed; a model without seeds is paired with every seed of the other side.
/// Errors: invalid, if the arms have different seeds.
fn of_axis<'t>(
    tables: &'t [Vec<ResultRow>],
    names: (&str, &str),
    (a, b): (&NamedModel, &NamedModel),
) -> Result<Vec<SeedRows<'t>>> {
    let seeds = |model: &NamedModel| match model {
        NamedModel::Seeds(seeds) => Some(seeds.keys().cloned().collect::<Vec<String>>()),
        NamedModel::One(_) => None,
    };
    let labels = match (seeds(a), seeds(b)) {
        (Some(a), Some(b)) if a != b => {
            let message = format!("`{}` has the seeds {}, `{}` has {}", names.0, a.join(", "), names.1, b.join(", "));
            return Err(Error::invalid(message).help("train both arms with the same seeds"));
        }
        (a, b) => a.or(b).unwrap_or_default(),
    };
    let rows = |model: &NamedModel, label: &String| match model {
        NamedModel::One(place) => models::rows_of(tables, place),
        NamedModel::Seeds(seeds) => seeds.get(label).map(|place| models::rows_of(tables, place)).unwrap_or_default(),
    };
    let of = |label: String| SeedRows { a: rows(a, &label), b: rows(b, &label), at: format!("seed {label}"), label };
    Ok(labels.into_iter().map(of).collect())
}

fn pooled(
    row: &ModelRow<'_>,
    (a, b): (&str, &str),
    (column, seed_rows): (&str, &[SeedRows<'_>]),
    context: &mut StageContext,
    report: &mut StageReport,
) -> Result<Vec<PairRow>> {
    let metric = row.metric;
    let parsed = ProblemMetric::parse(metric)?;
    let (mut rows, mut seeds) = (Vec::new(), Vec::new());
    for (place, seed) in seed_rows.iter().enumerate() {
        let at = &seed.at;
        let pairs = ProblemPairs::new(seed.a.iter().copied(), seed.b.iter().copied(), parsed).at(at)?;
        let difference = pairs.difference(None).ok_or_else(|| {
            Error::data(format!("`{a}` and `{b}` share no problem with a value of `{metric}` in {at}"))
                .help("evaluate both models on the same problems, with enough samples for the metric")
        })?;
        rows.extend(pairs.rows_of(row.name, place));
        seeds.push((seed.label.as_str(), difference));
    }
    let of = |value: fn(&Difference) -> f64| seeds.iter().map(|(_, d)| value(d)).collect::<Vec<f64>>();
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
        ..Comparison::of(row.name)
    });
    describe(report, metric, (a, b), (column, &seeds), interval);
    report.note(bootstrap(&rows, seeds.len()));
    Ok(rows)
}

fn describe(
    report: &mut StageReport,
    metric: &str,
    (a, b): (&str, &str),
    (column, seeds): (&str, &[(&str, Difference)]),
    interval: (f64, f64),
) {
    let excludes = interval.0 > 0.0 || interval.1 < 0.0;
    report.summary = format!(
        "Difference of `{metric}` over {} seeds; its 95% interval {} zero.",
        seeds.len(),
        if excludes { "excludes" } else { "includes" }
    );
    let mut table = Table::new(format!("{metric} by seed"), [column, "problems", a, b, "difference"]);
    for (label, d) in seeds {
        table.row([
            label.parse::<f64>().map_or_else(|_| ReportCell::text(*label), ReportCell::Number),
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

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
