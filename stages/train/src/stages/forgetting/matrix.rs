//! Computes the matrix `a[t][i]` (accuracy of the model after task t on task i) and its metrics (arXiv 2507.05386).
//!
//! Forgetting is the difference of two models on the same problems, with the interval of paired differences clustered
//! by problem (arXiv 2411.00640). Tasks have equal weight, regardless of their number of problems. Tasks share no
//! problem, so the errors of their means are independent and their squares add up.

use super::config::{ForgettingConfig, ForgettingTask};
use crate::results::ResultRow;
use crate::stages::compare::ProblemMetric;
use crate::stages::compare::metrics::ProblemValues;
use crate::stages::compare::models;
use trainyard_core::error::Context as _;
use trainyard_core::{Error, Result};
use trainyard_learn::statistics::{Difference, Estimate, clustered_mean, mean, paired_difference, wilson};

/// Values of single problems, for every model and task.
pub struct AccuracyMatrix {
    metric: ProblemMetric,
    /// Model before the first task, by task; `None` if not configured.
    initial: Option<Vec<ProblemValues>>,
    /// `[model][task]` in the order of training, a square.
    after: Vec<Vec<ProblemValues>>,
    tasks: Vec<String>,
}

impl AccuracyMatrix {
    /// Creates the matrix. Errors: data, if a required value is missing or a problem is in two tasks; invalid, for
    /// unknown models.
    pub fn new(config: &ForgettingConfig, tables: &[Vec<ResultRow>]) -> Result<Self> {
        let metric = ProblemMetric::parse(&config.metric)?;
        let of_model = |name: &String| -> Result<Vec<ProblemValues>> {
            let rows = models::rows(tables, name)?;
            rows.iter().try_for_each(|row| expect_one_task(config, row))?;
            let of_task = |task: &ForgettingTask| {
                let task_rows: Vec<&ResultRow> = rows.iter().copied().filter(|row| task.holds(row)).collect();
                metric.by_problem(&task_rows).at(format!("model `{name}`"))
            };
            config.tasks.iter().map(of_task).collect()
        };
        let after: Vec<Vec<ProblemValues>> = config.models.iter().map(&of_model).collect::<Result<_>>()?;
        let initial = config.initial.as_ref().map(&of_model).transpose()?;
        let matrix = Self { metric, initial, after, tasks: config.tasks.iter().map(|t| t.name.clone()).collect() };
        matrix.expect_values(config)?;
        Ok(matrix)
    }

    /// Rejects models without values on a task that they were trained on; values on later tasks are optional.
    fn expect_values(&self, config: &ForgettingConfig) -> Result<()> {
        let all = self.tasks.len();
        let initial = self.initial.iter().zip(&config.initial).map(|(row, name)| (row, name, all));
        let trained = self.after.iter().zip(&config.models).enumerate().map(|(t, (row, name))| (row, name, t + 1));
        for (row, name, needed) in initial.chain(trained) {
            if let Some(i) = row.iter().take(needed).position(ProblemValues::is_empty) {
                let message = format!("model `{name}` has no value of `{}` on task `{}`", config.metric, self.tasks[i]);
                return Err(Error::data(message)
                    .help("evaluate every model on the problems of all tasks that it was trained on"));
            }
        }
        Ok(())
    }

    /// Returns the estimate of the model after task `t` (0 = before the first) on task `i` (from 0), or `None` if the
    /// model was not evaluated on that task.
    pub fn cell(&self, t: usize, i: usize) -> Option<Estimate> {
        let row = if t == 0 { self.initial.as_ref()? } else { &self.after[t - 1] };
        estimate(&row[i])
    }
    /// Returns the rows of the matrix: 1 to the number of tasks, and also 0 if there is an initial model.
    pub fn stages(&self) -> std::ops::RangeInclusive<usize> {
        usize::from(self.initial.is_none())..=self.tasks.len()
    }
    /// Returns the 95% interval: Wilson's score for one trial per problem, which is also valid near 0 and 1; otherwise
    /// the interval clustered by problem.
    pub fn interval(&self, e: &Estimate) -> Option<(f64, f64)> {
        match self.metric {
            ProblemMetric::Accuracy => wilson((e.value * e.n as f64).round() as usize, e.n),
            _ => e.interval(),
        }
    }

    /// Returns the mean of the last model over all tasks, or `None` if a task has no value.
    pub fn final_accuracy(&self) -> Option<Estimate> {
        let last = self.tasks.len();
        over_tasks(&(0..last).map(|i| self.cell(last, i)).collect::<Option<Vec<_>>>()?)
    }
    /// Compares, for every task but the last, the model just after its training (a) with the last one (b), on problems
    /// with both values.
    pub fn forgetting(&self) -> Result<Vec<TaskChange>> {
        let last = self.tasks.len() - 1;
        (0..last).map(|i| self.change(i, &self.after[i][i], &self.after[last][i])).collect()
    }
    /// Returns the highest value since task `i` was trained minus the last one; never negative. The highest of several
    /// measured values exceeds the true value by chance, so this number is biased upwards and has no interval.
    pub fn from_best(&self, i: usize) -> f64 {
        let last = self.tasks.len();
        let since: Vec<f64> = (i + 1..=last).filter_map(|t| self.cell(t, i)).map(|e| e.value).collect();
        since.last().map_or(0.0, |end| since.iter().copied().fold(*end, f64::max) - end)
    }
    /// Compares, for every task, the model just after its training (a) with the initial one (b). `None` without an
    /// initial model.
    pub fn learned(&self) -> Result<Option<Vec<TaskChange>>> {
        let Some(initial) = &self.initial else { return Ok(None) };
        (0..self.tasks.len()).map(|i| self.change(i, &self.after[i][i], &initial[i])).collect::<Result<_>>().map(Some)
    }

    fn change(&self, i: usize, a: &ProblemValues, b: &ProblemValues) -> Result<TaskChange> {
        let shared: Vec<(&str, f64, f64)> =
            a.iter().filter_map(|(id, x)| Some((id.as_str(), *x, *b.get(id)?))).collect();
        let ids: Vec<&str> = shared.iter().map(|s| s.0).collect();
        let (first, second): (Vec<f64>, Vec<f64>) = shared.iter().map(|s| (s.1, s.2)).unzip();
        let difference = paired_difference(&first, &second, &ids).ok_or_else(|| {
            Error::data(format!("the models of task `{}` share no problem of it", self.tasks[i]))
                .help("evaluate all models on the same problems")
        })?;
        Ok(TaskChange { difference, left_out: a.len() + b.len() - 2 * ids.len() })
    }
}

/// Change of one task between two models.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TaskChange {
    /// Paired difference over the problems that both models have a value for.
    pub difference: Difference,
    /// Number of problems with a value for only one of the models.
    pub left_out: usize,
}

/// Returns the mean of estimates of disjoint tasks with equal weights: SE² = Σ SE_i² / n². `None` for an empty list.
pub fn over_tasks(tasks: &[Estimate]) -> Option<Estimate> {
    let value = mean(&tasks.iter().map(|e| e.value).collect::<Vec<_>>())?;
    let variance: Option<f64> = tasks.iter().map(|e| e.standard_error.map(|se| se * se)).sum();
    Some(Estimate {
        value,
        standard_error: variance.map(|v| v.sqrt() / tasks.len() as f64),
        n: tasks.iter().map(|e| e.n).sum(),
        clusters: tasks.iter().map(|e| e.clusters).sum(),
    })
}

fn estimate(values: &ProblemValues) -> Option<Estimate> {
    let ids: Vec<&String> = values.keys().collect();
    clustered_mean(&values.values().copied().collect::<Vec<f64>>(), &ids)
}

fn expect_one_task(config: &ForgettingConfig, row: &ResultRow) -> Result<()> {
    let mut held = config.tasks.iter().filter(|task| task.holds(row)).map(|task| &task.name);
    match (held.next(), held.next()) {
        (Some(one), Some(other)) => {
            Err(Error::data(format!("problem `{}` is in the tasks `{one}` and `{other}`", row.problem_id))
                .help("a problem belongs to one task; give them other levels or prefixes"))
        }
        _ => Ok(()),
    }
}
