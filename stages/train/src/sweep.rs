//! Shows the instances of a matrix as one table with the axes as columns, and one metric over a numeric axis.
//!
//! Instances that differ only on the axis `seed` are one arm: its mean and standard deviation over seeds are shown.

use std::collections::BTreeSet;
use trainyard_api::report::{Curve, ReportCell, Table};
use trainyard_core::instance::{AxisInstance, AxisValue, SEED_AXIS};
use trainyard_learn::statistics::{deviation, mean};

/// Values of one instance, in the order of the metrics; `None` = not measured.
pub struct SweepRun<'a> {
    /// The instance.
    pub instance: &'a AxisInstance,
    /// Values of the metrics.
    pub values: Vec<Option<f64>>,
}

/// Instances of one stage, grouped by their values on all axes but the seed.
pub struct Sweep<'a> {
    /// Stage of the instances.
    pub stage: &'a str,
    metrics: &'a [String],
    /// Axes without the seed, in the order of the file.
    axes: Vec<&'a str>,
    arms: Vec<SweepArm<'a>>,
    seeded: bool,
}

/// Instances that differ by their seed alone.
struct SweepArm<'a> {
    axes: Vec<&'a AxisValue>,
    runs: Vec<&'a SweepRun<'a>>,
}

impl<'a> Sweep<'a> {
    /// Groups the runs by stage and arm, both in their order. Stages without a second instance are left out.
    pub fn of_stages(metrics: &'a [String], runs: &'a [SweepRun<'a>]) -> Vec<Self> {
        let mut sweeps: Vec<Self> = Vec::new();
        for run in runs.iter().filter(|run| !run.instance.axes.is_empty()) {
            let stage = run.instance.stage();
            let at = sweeps.iter().position(|sweep| sweep.stage == stage).unwrap_or_else(|| {
                sweeps.push(Self::new(metrics, run.instance));
                sweeps.len() - 1
            });
            sweeps[at].add(run);
        }
        sweeps.retain(|sweep| sweep.arms.iter().map(|arm| arm.runs.len()).sum::<usize>() > 1);
        sweeps
    }

    fn new(metrics: &'a [String], instance: &'a AxisInstance) -> Self {
        let names = || instance.axes.iter().map(|value| value.axis.as_str());
        Self {
            stage: instance.stage(),
            metrics,
            axes: names().filter(|axis| *axis != SEED_AXIS).collect(),
            arms: Vec::new(),
            seeded: names().any(|axis| axis == SEED_AXIS),
        }
    }

    fn add(&mut self, run: &'a SweepRun<'a>) {
        let axes: Vec<&AxisValue> = run.instance.axes.iter().filter(|value| value.axis != SEED_AXIS).collect();
        match self.arms.iter_mut().find(|arm| arm.axes == axes) {
            Some(arm) => arm.runs.push(run),
            None => self.arms.push(SweepArm { axes, runs: vec![run] }),
        }
    }

    /// Returns the name of the axes: `lr, size`; `seed` if there is no other axis.
    pub fn over(&self) -> String {
        if self.axes.is_empty() { SEED_AXIS.to_string() } else { self.axes.join(", ") }
    }

    /// Returns the table: a row for each arm, its axes first. Metrics without any value are left out.
    pub fn table(&self) -> Table {
        let shown: Vec<usize> = (0..self.metrics.len())
            .filter(|place| self.arms.iter().any(|arm| !arm.values(*place).is_empty()))
            .collect();
        let mut columns: Vec<String> = self.axes.iter().map(ToString::to_string).collect();
        columns.extend(self.seeded.then(|| "seeds".to_string()));
        for place in &shown {
            columns.push(self.metrics[*place].clone());
            columns.extend(self.seeded.then(|| format!("sd of {}", self.metrics[*place])));
        }
        let mut table = Table::new(format!("{} over {}", self.stage, self.over()), columns);
        for arm in &self.arms {
            let mut cells: Vec<ReportCell> = arm.axes.iter().map(|value| axis_cell(value)).collect();
            cells.extend(self.seeded.then_some(ReportCell::Number(arm.runs.len() as f64)));
            for place in &shown {
                let values = arm.values(*place);
                cells.push(mean(&values).map_or(ReportCell::Empty, ReportCell::number));
                cells.extend(self.seeded.then(|| deviation(&values, 1).map_or(ReportCell::Empty, ReportCell::number)));
            }
            table.row(cells);
        }
        table
    }

    /// Returns the means of a metric over the first axis with several numbers; the other axes give the lines. `None`
    /// without such an axis or without two points.
    pub fn chart(&self, metric: &str) -> Option<Curve> {
        let place = self.metrics.iter().position(|name| name == metric)?;
        let axis = (0..self.axes.len()).find(|axis| {
            let numbers: Option<Vec<String>> =
                self.arms.iter().map(|arm| arm.axes.get(*axis)?.value.as_f64().map(|x| x.to_string())).collect();
            numbers.is_some_and(|numbers| numbers.into_iter().collect::<BTreeSet<_>>().len() > 1)
        })?;
        let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
        for arm in &self.arms {
            let (Some(x), Some(y)) = (arm.axes[axis].value.as_f64(), mean(&arm.values(place))) else { continue };
            let others: Vec<String> = (0..self.axes.len())
                .filter(|other| *other != axis)
                .map(|other| format!("{}={}", self.axes[other], text(&arm.axes[other].value)))
                .collect();
            let name = if others.is_empty() { metric.to_string() } else { others.join(",") };
            match lines.iter_mut().find(|(line, _)| *line == name) {
                Some((_, points)) => points.push((x, y)),
                None => lines.push((name, vec![(x, y)])),
            }
        }
        let mut curve =
            Curve::new(format!("{metric} of {} over {}", self.stage, self.axes[axis]), self.axes[axis], metric);
        for (name, mut points) in lines {
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            curve = curve.with(&name, points);
        }
        (curve.series.iter().map(|series| series.points.len()).sum::<usize>() > 1).then_some(curve)
    }
}

impl SweepArm<'_> {
    fn values(&self, place: usize) -> Vec<f64> {
        self.runs.iter().filter_map(|run| run.values.get(place).copied().flatten()).collect()
    }
}

fn axis_cell(value: &AxisValue) -> ReportCell {
    value.value.as_f64().map_or_else(|| ReportCell::text(text(&value.value)), ReportCell::Number)
}

fn text(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn instance(name: &str, axes: &[(&str, Value)]) -> AxisInstance {
        let axes = axes.iter().map(|(axis, value)| AxisValue { axis: (*axis).into(), value: value.clone() }).collect();
        AxisInstance { name: name.into(), axes }
    }

    #[test]
    fn seeds_are_pooled_and_axes_are_columns() {
        let base = instance("base", &[]);
        let cells = [
            instance("sft[lr=0.01,seed=1]", &[("lr", json!(0.01)), ("seed", json!(1))]),
            instance("sft[lr=0.01,seed=2]", &[("lr", json!(0.01)), ("seed", json!(2))]),
            instance("sft[lr=0.001,seed=1]", &[("lr", json!(0.001)), ("seed", json!(1))]),
        ];
        let metrics = ["accuracy".to_string(), "never".to_string()];
        let values = [0.5, 0.7, 0.25];
        let mut runs = vec![SweepRun { instance: &base, values: vec![Some(0.0), None] }];
        runs.extend(cells.iter().zip(values).map(|(instance, v)| SweepRun { instance, values: vec![Some(v), None] }));
        let sweeps = Sweep::of_stages(&metrics, &runs);
        let [sweep] = sweeps.as_slice() else { panic!("{}", sweeps.len()) };
        let table = sweep.table();
        assert_eq!((table.title.as_str(), sweep.over().as_str()), ("sft over lr", "lr"));
        assert_eq!(table.columns, ["lr", "seeds", "accuracy", "sd of accuracy"]);
        let number = |cell: &ReportCell| match cell {
            ReportCell::Number(value) => Some(*value),
            _ => None,
        };
        let row: Vec<Option<f64>> = table.rows[0].iter().map(number).collect();
        assert_eq!(row[..2], [Some(0.01), Some(2.0)]);
        // Of 0.5 and 0.7: mean 0.6, variance 2·0.1² = 0.02.
        assert!((row[2].unwrap() - 0.6).abs() < 1e-12 && (row[3].unwrap() - 0.02_f64.sqrt()).abs() < 1e-12);
        assert_eq!(table.rows[1][3], ReportCell::Empty, "one seed has no spread");
        let chart = sweep.chart("accuracy").unwrap();
        assert_eq!((chart.x.as_str(), chart.series.len()), ("lr", 1));
        assert_eq!(chart.series[0].points[0], [0.001, 0.25], "sorted by the axis");
        assert_eq!(chart.series[0].points.len(), 2);
        assert!(sweep.chart("never").is_none() && sweep.chart("other").is_none());
    }

    #[test]
    fn other_axes_are_lines_and_stages_are_apart() {
        let cell = |stage: &str, size: &str, k: u32| {
            let name = format!("{stage}[size={size},k={k}]");
            instance(&name, &[("size", json!(size)), ("k", json!(k))])
        };
        let cells = [cell("a", "s", 1), cell("a", "s", 2), cell("a", "l", 1), cell("a", "l", 2), cell("b", "s", 1)];
        let metrics = ["loss".to_string()];
        let runs: Vec<SweepRun<'_>> =
            cells.iter().map(|instance| SweepRun { instance, values: vec![Some(1.0)] }).collect();
        let sweeps = Sweep::of_stages(&metrics, &runs);
        assert_eq!(sweeps.len(), 1, "`b` has one instance");
        assert_eq!(sweeps[0].table().columns, ["size", "k", "loss"], "no seed, no spread");
        let chart = sweeps[0].chart("loss").unwrap();
        let names: Vec<&str> = chart.series.iter().map(|series| series.name.as_str()).collect();
        assert_eq!((chart.x.as_str(), names), ("k", vec!["size=s", "size=l"]));
    }
}
