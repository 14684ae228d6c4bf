//! Puts the instances of a fan-out of a run into a table.

use super::rows::{SweepDifference, SweepRow, axes, differences, metric_names, rows};
use crate::find;
use crate::graph::{GraphNode, GraphView};
use crate::metric_order::rank;
use crate::status::is_live;
use std::cmp::Ordering;
use trainyard_core::instance::SEED_AXIS;
use trainyard_core::{Clock, Error, Result, RunId};
use trainyard_engine::fold::{RunView, StageView};
use trainyard_store::Store;

/// Metrics that are columns by default.
const DEFAULT_METRICS: usize = 3;
/// Maximum metrics that are columns.
const MAX_METRICS: usize = 12;
/// Value of `pool` that shows each instance.
pub const NO_POOL: &str = "none";

/// Selects a fan-out and its columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SweepQuery {
    /// Stage without axes (the first fan-out).
    pub stage: Option<String>,
    /// Metrics that are columns, at most 12 (the main metric and two others, such as rewards and losses; those that
    /// are equal in all instances last).
    pub metrics: Vec<String>,
    /// Axis whose instances are pooled (`seed`), or `none`.
    pub pool: Option<String>,
    /// Axis or metric by which rows are sorted, with `-` in front for the largest first (the order of the plan).
    pub sort: Option<String>,
    /// Name of the row with which the others are compared (the first in the order of the plan).
    pub baseline: Option<String>,
}

/// Sweep of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepView {
    /// Run id.
    pub run: RunId,
    /// Names of all fan-outs of the run, in the order of the graph.
    pub stages: Vec<String>,
    /// Name of the shown fan-out.
    pub stage: String,
    /// Axes of its instances.
    pub axes: Vec<String>,
    /// Axis whose instances are pooled.
    pub pooled: Option<String>,
    /// Names of all metrics of the instances.
    pub all_metrics: Vec<String>,
    /// Metrics that are columns.
    pub metrics: Vec<String>,
    /// Rows.
    pub rows: Vec<SweepRow>,
    /// Name of the row with which the others are compared.
    pub baseline: Option<String>,
    /// Differences of the other rows from the baseline, for the first metric.
    pub differences: Vec<SweepDifference>,
}

/// Shows a sweep. Reads the run's journal only. Errors: invalid (no such run, fan-out or baseline), those of the store.
pub async fn show(store: &Store, clock: &dyn Clock, run: &RunId, query: &SweepQuery) -> Result<SweepView> {
    let view = find::view(store, run).await?;
    of_view(run, &view, is_live(&view, clock), query)
}

fn of_view(run: &RunId, view: &RunView, is_live: bool, query: &SweepQuery) -> Result<SweepView> {
    let graph = GraphView::of(view);
    let fan_outs: Vec<&GraphNode> = graph.nodes.iter().filter(|node| node.is_fan_out(view)).collect();
    let node = chosen(run, &fan_outs, query.stage.as_deref())?;
    let stages: Vec<&StageView> = node.instances.iter().map(|at| &view.stages[*at]).collect();
    let axes = axes(&stages);
    let pooled = match query.pool.as_deref() {
        Some(NO_POOL) => None,
        Some(axis) => axes.iter().find(|known| *known == axis).cloned(),
        None => axes.iter().find(|known| *known == SEED_AXIS).cloned(),
    };
    let all_metrics = metric_names(&stages);
    let metrics = columns(&stages, &all_metrics, &query.metrics);
    let mut rows = rows(&stages, &axes, pooled.as_deref(), &metrics, is_live);
    let baseline = baseline(&rows, query.baseline.as_deref())?.cloned();
    let differences = match (&baseline, metrics.is_empty()) {
        (Some(baseline), false) => differences(&rows, baseline, 0, pooled.is_some()),
        _ => Vec::new(),
    };
    if let Some(sort) = query.sort.as_deref() {
        sort_rows(&mut rows, &axes, &metrics, sort);
    }
    Ok(SweepView {
        run: run.clone(),
        stages: fan_outs.iter().map(|node| node.name.clone()).collect(),
        stage: node.name.clone(),
        axes,
        pooled,
        all_metrics,
        metrics,
        rows,
        baseline: baseline.map(|row| row.name),
        differences,
    })
}

fn chosen<'a>(run: &RunId, fan_outs: &[&'a GraphNode], name: Option<&str>) -> Result<&'a GraphNode> {
    let found = match name {
        Some(name) => fan_outs.iter().find(|node| node.name == name),
        None => fan_outs.first(),
    };
    found.copied().ok_or_else(|| {
        let names: Vec<&str> = fan_outs.iter().map(|node| node.name.as_str()).collect();
        match (name, names.is_empty()) {
            (Some(name), false) => Error::invalid(format!("run {run} has no stage `{name}` with a `matrix`"))
                .help(format!("its fan-outs are {}", names.join(", "))),
            _ => Error::invalid(format!("run {run} has no stage with a `matrix` or `for_each`"))
                .help("a sweep is a stage with `matrix`, whose axes become columns"),
        }
    })
}

/// Returns the wanted metrics that exist, or the main metric and the first others: of those that differ between
/// instances in the order of [`rank`], then of those that do not.
fn columns(stages: &[&StageView], all: &[String], wanted: &[String]) -> Vec<String> {
    let wanted: Vec<String> = wanted.iter().filter(|name| all.contains(name)).take(MAX_METRICS).cloned().collect();
    if !wanted.is_empty() {
        return wanted;
    }
    let main = stages.iter().find_map(|stage| stage.main_metric.as_ref()).filter(|main| all.contains(main));
    let mut others: Vec<&String> = all.iter().filter(|name| Some(*name) != main).collect();
    others.sort_by_key(|name| (!differs(stages, name), rank(name)));
    main.into_iter().chain(others).take(DEFAULT_METRICS).cloned().collect()
}

/// Returns whether two instances have different values of a metric.
fn differs(stages: &[&StageView], metric: &str) -> bool {
    let mut values = stages.iter().filter_map(|stage| stage.metrics.get(metric)).map(|value| value.to_bits());
    let first = values.next();
    values.any(|value| Some(value) != first)
}

fn baseline<'a>(rows: &'a [SweepRow], name: Option<&str>) -> Result<Option<&'a SweepRow>> {
    match name {
        None => Ok(rows.first()),
        Some(name) => rows.iter().find(|row| row.name == name).map(Some).ok_or_else(|| {
            let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).take(10).collect();
            Error::invalid(format!("the sweep has no row `{name}`")).help(format!("rows are {}", names.join("; ")))
        }),
    }
}

/// Sorts by an axis or a metric. Rows without a value are last; numbers are compared as numbers.
fn sort_rows(rows: &mut [SweepRow], axes: &[String], metrics: &[String], sort: &str) {
    let (is_descending, name) = match sort.strip_prefix('-') {
        Some(name) => (true, name),
        None => (false, sort),
    };
    let directed = |order: Ordering| if is_descending { order.reverse() } else { order };
    if let Some(at) = metrics.iter().position(|metric| metric == name) {
        rows.sort_by(|a, b| with_missing(a.cells[at].mean, b.cells[at].mean, |a, b| directed(a.total_cmp(b))));
    } else if let Some(at) = axes.iter().position(|axis| axis == name) {
        rows.sort_by(|a, b| {
            with_missing(a.axes[at].as_deref(), b.axes[at].as_deref(), |a, b| directed(compare_texts(a, b)))
        });
    }
}

fn with_missing<T>(a: Option<T>, b: Option<T>, compare: impl Fn(&T, &T) -> Ordering) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => compare(&a, &b),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}

fn compare_texts(a: &str, b: &str) -> Ordering {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => a.total_cmp(&b),
        _ => a.cmp(b),
    }
}

#[cfg(test)]
mod tests;
