//! Rows of a sweep: instances, or the instances of one setting pooled over an axis.

use super::axes::{AxisText, axes_of};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::statistics::{PooledEstimate, mean};
use trainyard_engine::fold::StageView;

/// Probability beyond each end of a two-sided 95% interval.
const TAIL: f64 = 0.025;

/// Row of a sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepRow {
    /// Values on the axes that are columns, as `lr=0.003`, joined by commas; the name of the row.
    pub name: String,
    /// Value on each axis of the sweep; `None` on the pooled axis, and where an instance has no such axis.
    pub axes: Vec<Option<String>>,
    /// Keys of the instances.
    pub stages: Vec<String>,
    /// Number of instances in each status.
    pub statuses: BTreeMap<String, usize>,
    /// Value of each metric of the sweep.
    pub cells: Vec<SweepCell>,
}

/// Metric of a row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SweepCell {
    /// Value on the pooled axis (or the key of the instance), and the metric of the instance there.
    pub values: BTreeMap<String, f64>,
    /// Mean of the values.
    pub mean: Option<f64>,
    /// Standard deviation between the values (ddof 1); `None` with fewer than two.
    pub deviation: Option<f64>,
}

/// Difference of a row from the baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepDifference {
    /// Name of the row.
    pub name: String,
    /// Mean difference from the baseline.
    pub difference: f64,
    /// 95% t interval over the pairs; `None` with fewer than two.
    pub interval: Option<(f64, f64)>,
    /// Number of pairs: values on the pooled axis that both rows have.
    pub pairs: usize,
}

/// Instance, with its value on the pooled axis or else its key.
type Member<'a> = (String, &'a StageView);

/// Returns the axes of instances, in the order in which they first appear.
pub(super) fn axes(stages: &[&StageView]) -> Vec<String> {
    let mut axes: Vec<String> = Vec::new();
    for stage in stages {
        for AxisText { axis, .. } in axes_of(&stage.key().0) {
            if !axes.contains(&axis) {
                axes.push(axis);
            }
        }
    }
    axes
}

/// Groups instances by their values on all axes but `pooled`. Each group is a row, in the order of the plan.
pub(super) fn rows(
    stages: &[&StageView],
    axes: &[String],
    pooled: Option<&str>,
    metrics: &[String],
    is_live: bool,
) -> Vec<SweepRow> {
    let mut groups: Vec<(Vec<AxisText>, Vec<Member<'_>>)> = Vec::new();
    for stage in stages {
        let (repeated, kept): (Vec<AxisText>, Vec<AxisText>) =
            axes_of(&stage.key().0).into_iter().partition(|axis| Some(axis.axis.as_str()) == pooled);
        let place = repeated.into_iter().next().map_or_else(|| stage.key().0.clone(), |axis| axis.value);
        match groups.iter_mut().find(|(known, _)| *known == kept) {
            Some((_, members)) => members.push((place, *stage)),
            None => groups.push((kept, vec![(place, *stage)])),
        }
    }
    groups.into_iter().map(|(kept, members)| row(&kept, &members, axes, metrics, is_live)).collect()
}

fn row(kept: &[AxisText], members: &[Member<'_>], axes: &[String], metrics: &[String], is_live: bool) -> SweepRow {
    let mut statuses = BTreeMap::new();
    for (_, stage) in members {
        *statuses.entry(stage.shown_status(is_live).to_string()).or_default() += 1;
    }
    let name: Vec<String> = kept.iter().map(|axis| format!("{}={}", axis.axis, axis.value)).collect();
    let value = |axis: &String| kept.iter().find(|known| known.axis == *axis).map(|known| known.value.clone());
    SweepRow {
        name: if name.is_empty() { "all".to_string() } else { name.join(",") },
        axes: axes.iter().map(value).collect(),
        stages: members.iter().map(|(_, stage)| stage.key().0.clone()).collect(),
        statuses,
        cells: metrics.iter().map(|metric| cell(members, metric)).collect(),
    }
}

fn cell(members: &[Member<'_>], metric: &str) -> SweepCell {
    let value = |(place, stage): &Member<'_>| Some((place.clone(), *stage.metrics.get(metric)?));
    let values: BTreeMap<String, f64> = members.iter().filter_map(value).collect();
    let list: Vec<f64> = values.values().copied().collect();
    let pooled = PooledEstimate::of(&list);
    SweepCell { mean: mean(&list), deviation: pooled.and_then(|pooled| pooled.deviation), values }
}

/// Returns the differences of all other rows from the baseline, for the metric of this number. Rows without a pair are
/// left out. Rows of an axis that is not pooled have one instance each, which is a pair with the baseline's.
pub(super) fn differences(
    rows: &[SweepRow],
    baseline: &SweepRow,
    metric: usize,
    is_pooled: bool,
) -> Vec<SweepDifference> {
    let others = rows.iter().filter(|row| row.name != baseline.name);
    others.filter_map(|row| difference(row, baseline, metric, is_pooled)).collect()
}

fn difference(row: &SweepRow, baseline: &SweepRow, metric: usize, is_pooled: bool) -> Option<SweepDifference> {
    let (values, base) = (&row.cells[metric].values, &baseline.cells[metric].values);
    let pairs: Vec<f64> = match is_pooled {
        true => values.iter().filter_map(|(place, value)| Some(value - base.get(place)?)).collect(),
        false => values.values().zip(base.values()).map(|(value, base)| value - base).collect(),
    };
    let pooled = PooledEstimate::of(&pairs)?;
    Some(SweepDifference {
        name: row.name.clone(),
        difference: pooled.value,
        interval: pooled.interval(TAIL),
        pairs: pairs.len(),
    })
}

/// Returns the names of all metrics of instances, sorted, without the ends of intervals.
pub(super) fn metric_names(stages: &[&StageView]) -> Vec<String> {
    let all: BTreeSet<&String> = stages.iter().flat_map(|stage| stage.metrics.keys()).collect();
    let is_end = |name: &str| {
        let of = name.strip_suffix("_low").or_else(|| name.strip_suffix("_high"));
        of.is_some_and(|of| all.contains(&of.to_string()))
    };
    all.iter().filter(|name| !is_end(name)).map(|name| (*name).clone()).collect()
}
