//! Converts result rows to metrics, tables and paired differences.
//!
//! All numbers are computed from the rows of the output `results`, so users can recompute them. Infrastructure failures
//! are left out of every metric and never counted as incorrect.

use super::answers;
use super::choices::{self, SelectionMethod};
use super::config::EvaluateConfig;
use super::twins::Twins;
use crate::programs::ProgramTotals;
use crate::results::ResultRow;
use crate::stages::compare::{ProblemMetric, ProblemPairs};
use crate::sweep::{Sweep, SweepRun};
use std::collections::{BTreeMap, BTreeSet};
use trainyard_api::StageContext;
use trainyard_api::report::{ReportCell, StageReport, Table};
use trainyard_core::Result;
use trainyard_learn::statistics::{Estimate, clustered_mean, wilson};

/// Metric with its name and column heading.
struct SummaryColumn {
    metric: ProblemMetric,
    name: String,
    head: String,
}

/// Rows of an evaluation with the data needed to summarize them.
pub struct Summary<'a> {
    config: &'a EvaluateConfig,
    names: &'a [String],
    /// Rows of each model, in the order of `names`.
    rows: &'a [Vec<ResultRow>],
    with_prm: bool,
    /// Twins of training problems; `None` without training problems.
    twins: Option<&'a Twins>,
    /// Program counts of each model.
    programs: &'a [ProgramTotals],
}

impl<'a> Summary<'a> {
    /// Creates a summary of `rows`, which has one list per entry of `names`; `with_prm`: the rows have step scores.
    pub fn new(
        config: &'a EvaluateConfig,
        names: &'a [String],
        rows: &'a [Vec<ResultRow>],
        with_prm: bool,
        twins: Option<&'a Twins>,
    ) -> Self {
        Self { config, names, rows, with_prm, twins, programs: &[] }
    }

    /// Sets the program counts, one for each model.
    pub fn programs(self, programs: &'a [ProgramTotals]) -> Self {
        Self { programs, ..self }
    }

    /// Sets all metrics and writes the report.
    pub fn write(&self, context: &mut StageContext) -> Result<()> {
        let mut report = StageReport::new("Evaluation");
        let problems: BTreeSet<&str> = self.rows.iter().flatten().map(|r| r.problem_id.as_str()).collect();
        report.summary = format!(
            "{} models on {} problems: one greedy episode each, {} drawn ones.",
            self.names.len(),
            problems.len(),
            self.config.samples
        );
        self.models(context, &mut report)?;
        self.sweep(&mut report)?;
        self.levels(context, &mut report)?;
        self.differences(context, &mut report)?;
        choices::write(&self.choices(), self.names, self.rows, context, &mut report)?;
        if let Some(twins) = self.twins {
            twins.write(self.names, self.rows, context, &mut report)?;
        }
        self.conversations(context, &mut report);
        self.counts(context, &mut report);
        answers::write(self.names, self.rows, context, &mut report);
        report.note(
            "Intervals are 95%: of greedy accuracy by Wilson's score, of samples clustered by problem \
            (2411.00640); differences are paired by problem.",
        );
        report.note(
            "Counts (tool calls, tool errors, tokens) have an interval on the log scale, m·exp(±1.96·SE/m), \
            which cannot go below 0; where all counts are 0 there is none.",
        );
        report.note(
            "pass@k is the unbiased estimate (2107.03374); maj@k breaks ties by expectation and counts them; \
            infrastructure failures are left out, never scored 0.",
        );
        report.note("likeliest of k takes the sample with the highest probability under the model.");
        if self.with_prm {
            report.note("weighted maj@k takes the answer whose samples' scores have the largest sum (2206.02336).");
            report.note(
                "best-of-k takes the sample with the highest score: the least of its steps (min), their \
                product, or the last.",
            );
        }
        context.write_report("report", report, &super::declared::any())
    }

    /// Returns the metrics that a model of this evaluation can have.
    fn columns(&self) -> Result<Vec<SummaryColumn>> {
        let column =
            |name: String, head: String| Ok(SummaryColumn { metric: ProblemMetric::parse(&name)?, name, head });
        let mut list = vec![column("accuracy".into(), "accuracy (greedy)".into())];
        let n = self.config.samples;
        if n > 0 {
            list.push(Ok(SummaryColumn {
                metric: ProblemMetric::Avg,
                name: format!("avg_at_{n}"),
                head: format!("avg@{n}"),
            }));
            list.extend(self.config.ks().into_iter().map(|k| column(format!("pass_at_{k}"), format!("pass@{k}"))));
            list.push(column(format!("maj_at_{n}"), format!("maj@{n}")));
            list.push(column(format!("likeliest_of_{n}"), format!("likeliest of {n}")));
            if self.with_prm {
                list.push(column(format!("weighted_maj_at_{n}_min"), format!("maj@{n} weighted by PRM (min)")));
                list.extend(
                    ["min", "product", "last"]
                        .map(|how| column(format!("best_of_{n}_{how}"), format!("best of {n} by PRM ({how})"))),
                );
            }
        }
        list.extend(["tool_calls", "tool_errors", "tokens"].map(|c| column(c.into(), c.replace('_', " "))));
        list.into_iter().collect()
    }

    /// Returns the ways to choose one of the samples.
    fn choices(&self) -> Vec<SelectionMethod> {
        let n = self.config.samples;
        let choice = |name: String, head: String, by_prm| SelectionMethod { name, head, by_prm };
        if n == 0 {
            return Vec::new();
        }
        let mut list = vec![choice(format!("likeliest_of_{n}"), format!("likeliest of {n}"), false)];
        if self.with_prm {
            list.extend(
                ["min", "product", "last"]
                    .map(|how| choice(format!("best_of_{n}_{how}"), format!("best of {n} by PRM ({how})"), true)),
            );
        }
        list
    }

    /// Writes the metrics of all models as a table with one row per metric, so that all models fit in a terminal.
    fn models(&self, context: &mut StageContext, report: &mut StageReport) -> Result<()> {
        let heads = std::iter::once("metric".to_string()).chain(self.names.iter().cloned());
        let mut table = Table::new("Models", heads);
        for SummaryColumn { metric, name: column, head } in self.columns()? {
            let mut cells = vec![ReportCell::text(head)];
            for (name, rows) in self.names.iter().zip(self.rows) {
                let estimate = estimate(metric, rows, None)?;
                cells.push(estimate.map_or(ReportCell::Empty, |e| ReportCell::interval(e.value, interval(metric, &e))));
                if let Some(e) = estimate {
                    let name = format!("{column}_{name}");
                    context.metric(&name, e.value);
                    report.estimate(name, e.value, interval(metric, &e), e.clusters as u64);
                }
            }
            table.row(cells);
        }
        // The last model is the pipeline's result; its accuracy also has the plain name.
        if let Some(rows) = self.rows.last()
            && let Some(e) = estimate(ProblemMetric::Accuracy, rows, None)?
        {
            context.metric("accuracy", e.value);
            report.estimate("accuracy", e.value, interval(ProblemMetric::Accuracy, &e), e.clusters as u64);
        }
        report.table(table);
        Ok(())
    }

    /// Writes the models of a matrix as a table with its axes as columns, and accuracy over a numeric axis.
    fn sweep(&self, report: &mut StageReport) -> Result<()> {
        let columns = self.columns()?;
        let metrics: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let mut runs = Vec::new();
        for (instance, rows) in self.config.instances.iter().zip(self.rows) {
            let value = |column: &SummaryColumn| -> Result<Option<f64>> {
                Ok(estimate(column.metric, rows, None)?.map(|e| e.value))
            };
            runs.push(SweepRun { instance, values: columns.iter().map(value).collect::<Result<_>>()? });
        }
        for sweep in Sweep::of_stages(&metrics, &runs) {
            report.table(sweep.table());
            if let Some(chart) = sweep.chart("accuracy") {
                report.curve(chart);
            }
        }
        Ok(())
    }

    /// Writes every metric of every model on each level, side by side.
    fn levels(&self, context: &mut StageContext, report: &mut StageReport) -> Result<()> {
        let levels: BTreeSet<u32> = self.rows.iter().flatten().map(|r| r.level).collect();
        let heads =
            ["metric", "model"].map(String::from).into_iter().chain(levels.iter().map(|l| format!("level {l}")));
        let mut table = Table::new("By level", heads.chain(["mean of levels".to_string()]));
        for SummaryColumn { metric, name: column, head } in self.columns()? {
            for (name, rows) in self.names.iter().zip(self.rows) {
                let mut cells = vec![ReportCell::text(&head), ReportCell::text(name)];
                let mut values = Vec::new();
                for &level in &levels {
                    let estimate = estimate(metric, rows, Some(level))?;
                    if let Some(e) = estimate {
                        context.metric(format!("{column}_{name}_level_{level}"), e.value);
                        values.push(e.value);
                    }
                    cells.push(
                        estimate.map_or(ReportCell::Empty, |e| ReportCell::interval(e.value, interval(metric, &e))),
                    );
                }
                // A model without samples has no sample metrics.
                if values.is_empty() {
                    continue;
                }
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                context.metric(format!("{column}_{name}_mean_of_levels"), mean);
                cells.push(ReportCell::number(mean));
                table.row(cells);
            }
        }
        report.table(table);
        Ok(())
    }

    /// Writes greedy-accuracy differences: every later model minus every earlier one.
    fn differences(&self, context: &mut StageContext, report: &mut StageReport) -> Result<()> {
        let mut table = Table::new("Paired differences of greedy accuracy", ["models", "difference", "problems"]);
        for later in 1..self.names.len() {
            for earlier in 0..later {
                let pairs = ProblemPairs::new(&self.rows[later], &self.rows[earlier], ProblemMetric::Accuracy)?;
                let Some(d) = pairs.difference(None) else { continue };
                let metric = format!("difference_{}_{}", self.names[later], self.names[earlier]);
                let interval = d.difference.interval();
                context.metric(&metric, d.difference.value);
                if let Some((low, high)) = interval {
                    context.metric(format!("{metric}_low"), low);
                    context.metric(format!("{metric}_high"), high);
                }
                report.estimate(metric, d.difference.value, interval, d.difference.clusters as u64);
                let label = format!("{} − {}", self.names[later], self.names[earlier]);
                table.row([
                    ReportCell::text(label),
                    ReportCell::interval(d.difference.value, interval),
                    ReportCell::number(d.difference.n as f64),
                ]);
            }
        }
        if !table.rows.is_empty() {
            report.table(table);
        }
        Ok(())
    }

    /// Writes the counts of programs' conversations, if the rollouts have any.
    fn conversations(&self, context: &mut StageContext, report: &mut StageReport) {
        let mut table = Table::new("Conversations of programs", ["model", "what", "per episode"]);
        for (name, programs) in self.names.iter().zip(self.programs) {
            for (count, mean) in programs.means() {
                context.metric(format!("{count}_{name}"), mean);
                table.row([
                    ReportCell::text(name),
                    ReportCell::text(count.replace('_', " ")),
                    ReportCell::number(mean),
                ]);
            }
        }
        if !table.rows.is_empty() {
            report.table(table);
        }
    }

    /// Writes counts of problems, infrastructure failures and stop reasons.
    fn counts(&self, context: &mut StageContext, report: &mut StageReport) {
        let mut table = Table::new("Episodes by end", ["model", "end", "episodes"]);
        let mut failures = 0;
        for (name, rows) in self.names.iter().zip(self.rows) {
            let mut ends: BTreeMap<&str, u64> = BTreeMap::new();
            for row in rows {
                let end = if row.correct.is_none() { "infrastructure failure" } else { row.stop_reason.as_str() };
                *ends.entry(end).or_default() += 1;
            }
            let failed = ends.get("infrastructure failure").copied().unwrap_or(0);
            failures += failed;
            context.metric(format!("infrastructure_failures_{name}"), failed as f64);
            for (end, n) in ends {
                table.row([ReportCell::text(name), ReportCell::text(end), ReportCell::number(n as f64)]);
            }
        }
        let problems = self.rows.iter().flatten().map(|r| r.problem_id.as_str()).collect::<BTreeSet<_>>().len();
        for (name, value) in [("problems", problems as f64), ("infrastructure_failures", failures as f64)] {
            context.metric(name, value);
            report.metric(name, value);
        }
        report.table(table);
    }
}

/// Returns an interval within the metric's range, or `None` if it cannot be estimated: Wilson's interval for one trial
/// per problem, a log scale for counts, and limits of 0 and 1 for shares.
fn interval(metric: ProblemMetric, e: &Estimate) -> Option<(f64, f64)> {
    match metric {
        ProblemMetric::Accuracy => wilson((e.value * e.n as f64).round() as usize, e.n),
        ProblemMetric::Mean(_) => e.positive_interval(),
        _ => e.interval().map(|(low, high)| (low.max(0.0), high.min(1.0))),
    }
}

/// Estimates a metric over the problems of `level`, or over all problems. `None` if no problem has a value.
fn estimate(metric: ProblemMetric, rows: &[ResultRow], level: Option<u32>) -> Result<Option<Estimate>> {
    let some: Vec<&ResultRow> = rows.iter().filter(|r| level.is_none_or(|l| r.level == l)).collect();
    let by_problem = metric.by_problem(&some)?;
    let values: Vec<f64> = by_problem.values().copied().collect();
    let ids: Vec<&String> = by_problem.keys().collect();
    Ok(clustered_mean(&values, &ids))
}
