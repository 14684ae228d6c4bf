//! Compares two arms of one recipe by their reports and rollouts, to show the effects of a mechanism.
//!
//! A mechanism may affect quantities that no evaluation measures, such as a gradient norm, void turns, or tool calls
//! per correct answer. Metrics of trajectories have a value per problem, so they are paired by problem and have an
//! interval (arXiv 2411.00640). Metrics of reports are one number per arm and have no interval. Artifacts with equal
//! digests differ by exactly 0.
//!
//! Every arm is compared with the last. A metric that neither of two has is an error, unless both are one artifact.

use super::arm_metric::{ArmMetric, MetricSource};
use super::config::{ArmChoice, CompareConfig};
use super::pair_rows::PairRow;
use super::trajectories::{self, TrajectoryMetric};
use std::collections::BTreeSet;
use trainyard_api::report::{ReportCell, StageReport, Table};
use trainyard_api::{InputArtifact, StageContext};
use trainyard_core::error::Context as _;
use trainyard_core::{Comparison, Error, Result};
use trainyard_learn::statistics::paired_difference;
use trainyard_tables::{Trajectory, read_trajectories};

const NOTE: &str = "Metrics of trajectories are paired by problem, over the problems that both arms practiced on; \
    their 95% intervals are clustered by problem (arXiv 2411.00640). Metrics of reports are one number per arm.";

/// The artifacts of both arms at one port.
struct ArmPair<T> {
    a: T,
    b: T,
    /// Whether both are the same artifact.
    same: bool,
}

/// Compares the arms with the last. Adds the comparisons to the context, and tables to the report. For metrics of
/// trajectories, returns both values of every shared problem.
pub fn compare(config: &CompareConfig, context: &mut StageContext, report: &mut StageReport) -> Result<Vec<PairRow>> {
    let pairs = config.arm_pairs();
    let mut rows = Vec::new();
    for pair in &pairs {
        rows.extend(compare_pair(config, *pair, pairs.len(), context, report)?);
    }
    report.note(NOTE);
    Ok(rows)
}

fn compare_pair(
    config: &CompareConfig,
    pair: ArmChoice<'_>,
    count: usize,
    context: &mut StageContext,
    report: &mut StageReport,
) -> Result<Vec<PairRow>> {
    let reports = arm_pair(config, pair, context, "reports", |arm| StageReport::read(&arm.folder))?;
    let trajectories = arm_pair(config, pair, context, "trajectories", |arm| read_trajectories(&arm.parquet()))?;
    let names = (pair.a, pair.b);
    let title = if count > 1 { format!("Arms: {} against {}", pair.a, pair.b) } else { "Arms".into() };
    let mut table = Table::new(title, ["metric", names.1, names.0, "difference", "problems", "unit"]);
    let mut pairs = Vec::new();
    for name in &config.metrics {
        let metric = ArmMetric::parse(name)?;
        let row_name = CompareConfig::row_name(name, pair.a, count);
        let origin = metric.origin(reports.is_some(), trajectories.is_some());
        let found = match (origin, &reports, &trajectories) {
            (Some(MetricSource::Trajectories(metric)), _, Some(both)) => {
                let (found, rows) = compare_trajectories(name, &metric, both, config, names)?;
                pairs.extend(rows.into_iter().map(|row| PairRow { metric: row_name.clone(), ..row }));
                found
            }
            (Some(MetricSource::Report(report_name)), Some(both), _) => {
                compare_reports(name, &report_name, both, names)?
            }
            _ => {
                let error = Error::invalid(format!("no wired input has the metric `{name}`"));
                return Err(error.help("wire `reports` or `trajectories` of both arms"));
            }
        };
        table.row(cells(name, &found));
        context.comparison(Comparison { metric: row_name, ..found });
    }
    let same = |a: Option<bool>, b: Option<bool>| a.or(b).is_some() && a.unwrap_or(true) && b.unwrap_or(true);
    if same(reports.as_ref().map(|r| r.same), trajectories.as_ref().map(|t| t.same)) {
        report.note(format!("{} and {} are the same artifacts, so all differences are 0.", names.0, names.1));
    }
    report.table(table);
    Ok(pairs)
}

fn cells(name: &str, found: &Comparison) -> [ReportCell; 6] {
    let cell = |value: Option<f64>| value.map_or(ReportCell::Empty, ReportCell::number);
    [
        ReportCell::text(name),
        cell(found.b),
        cell(found.a),
        found.difference.map_or(ReportCell::Empty, |d| ReportCell::interval(d, found.low.zip(found.high))),
        cell(found.n.map(|n| n as f64)),
        ReportCell::text(&found.unit),
    ]
}

fn arm_pair<T>(
    config: &CompareConfig,
    pair: ArmChoice<'_>,
    context: &StageContext,
    port: &str,
    read: impl Fn(&InputArtifact) -> Result<T>,
) -> Result<Option<ArmPair<T>>> {
    let wired = context.many(port);
    if wired.is_empty() {
        return Ok(None);
    }
    let (a, b) = config.arm_places(wired.len(), pair).at(format!("`{port}`"))?;
    let (a, b) = (&wired[a], &wired[b]);
    Ok(Some(ArmPair { a: read(a)?, b: read(b)?, same: a.digest == b.digest }))
}

/// Compares a metric of the reports. If only one arm has the metric, its value is shown without a difference, because a
/// mechanism may report metrics that other arms lack. Errors: data, if neither arm has the metric.
fn compare_reports(
    name: &str,
    report_name: &str,
    reports: &ArmPair<StageReport>,
    (a, b): (&str, &str),
) -> Result<Comparison> {
    let found = [reports.a.metrics.get(report_name), reports.b.metrics.get(report_name)];
    if found == [None, None] && !reports.same {
        let known: BTreeSet<&str> =
            reports.a.metrics.keys().chain(reports.b.metrics.keys()).map(String::as_str).collect();
        let known: Vec<&str> = known.into_iter().collect();
        return Err(Error::data(format!("neither {a} nor {b} reports a metric `{report_name}`"))
            .help(format!("they report: {}", known.join(", "))));
    }
    let [a, b] = found.map(|m| m.map(|m| m.value));
    let unit = found.into_iter().flatten().map(|m| m.unit.clone()).next().unwrap_or_default();
    let difference = a.zip(b).map(|(a, b)| a - b);
    Ok(Comparison { a, b, difference, unit, ..Comparison::of(name) })
}

fn compare_trajectories(
    name: &str,
    metric: &TrajectoryMetric,
    both: &ArmPair<Vec<Trajectory>>,
    config: &CompareConfig,
    (first, second): (&str, &str),
) -> Result<(Comparison, Vec<PairRow>)> {
    let (a, b) = (metric.by_problem(&both.a, &config.correct)?, metric.by_problem(&both.b, &config.correct)?);
    let shared: Vec<(&str, f64, f64)> = a.iter().filter_map(|(id, x)| Some((id.as_str(), *x, *b.get(id)?))).collect();
    let ids: Vec<&str> = shared.iter().map(|s| s.0).collect();
    let row = |(id, a, b): &(&str, f64, f64)| PairRow {
        metric: name.to_string(),
        table: 0,
        problem_id: (*id).to_string(),
        a: *a,
        b: *b,
    };
    let rows = shared.iter().map(row).collect();
    let values = |of: fn(&(&str, f64, f64)) -> f64| shared.iter().map(of).collect::<Vec<f64>>();
    let unit = trajectories::declared().iter().find(|m| m.covers(name)).map(|m| m.unit.to_string());
    let empty = Comparison { n: Some(ids.len() as u64), unit: unit.unwrap_or_default(), ..Comparison::of(name) };
    match paired_difference(&values(|s| s.1), &values(|s| s.2), &ids) {
        Some(d) => {
            let (low, high) = d.difference.interval().or(both.same.then_some((0.0, 0.0))).unzip();
            Ok((Comparison { a: Some(d.a), b: Some(d.b), difference: Some(d.a - d.b), low, high, ..empty }, rows))
        }
        None if both.same => Ok((empty, rows)),
        None => {
            let error = Error::data(format!("{first} and {second} share no problem with a value of `{name}`"));
            Err(error.help(
                "train both on the same problems with the same seed, \
                 and keep more of their rollouts (`keep_rollouts`)",
            ))
        }
    }
}

#[cfg(test)]
#[path = "arms_tests.rs"]
mod tests;
