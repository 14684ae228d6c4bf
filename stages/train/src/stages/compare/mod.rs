//! Implements the stage `compare`, which computes the paired differences of models from one model on the same problems,
//! and of arms of a recipe from one arm.
//!
//! Both comparisons test the effect of a change, with differences paired by problem (arXiv 2411.00640). Models are
//! compared by their evaluation results ([`pairs`]), arms also by their rollouts and reports from training ([`arms`]).
//! Options that contradict the wired inputs are reported before the stage runs. Models or arms without a common problem
//! are an error.

pub mod arm_metric;
pub mod arms;
pub mod config;
mod declared;
mod known_models;
pub mod metrics;
pub mod models;
pub mod pair_rows;
pub mod pairs;
mod pool;
mod several;
pub mod trajectories;

pub use config::CompareConfig;
pub use metrics::ProblemMetric;
pub use pairs::ProblemPairs;

use serde_json::Value;
use several::{ModelRow, Overview};
use trainyard_api::report::StageReport;
use trainyard_api::stage::Ports;
use trainyard_api::stage::refuse;
use trainyard_api::{PreparedOptions, Stage, StageContext, port};
use trainyard_core::{ArtifactKind, Cardinality, DeclaredMetrics, MetricRead, Producers, Result};

/// The stage kind `compare`.
#[derive(Default)]
pub struct Compare;

impl Stage for Compare {
    type Prepared = CompareConfig;
    const NAME: &'static str = "compare";
    const VERSION: u32 = 3;
    const SUMMARY: &'static str =
        "The paired differences of models, or of arms of a recipe, from a baseline, with 95% intervals.";
    const DOC: &'static str = include_str!("compare.md");
    const EXAMPLE: &'static str =
        r#"{"results": "${{ stages.evaluate.results }}", "metric": "accuracy", "a": "rl", "b": "sft"}"#;

    fn metrics(&self) -> DeclaredMetrics {
        declared::any()
    }
    fn declared_metrics(&self, config: &CompareConfig, producers: &Producers) -> DeclaredMetrics {
        declared::of(config, producers)
    }
    fn metrics_read(&self, config: &CompareConfig, producers: &Producers) -> Vec<MetricRead> {
        declared::reads(config, producers)
    }
    fn ports(&self) -> Ports {
        use ArtifactKind::{Report, Table, Trajectories};
        use Cardinality::{Many, One};
        Ports {
            inputs: vec![
                port("results", Table, Many, "Tables of `evaluate` that hold the models `a` and `b`."),
                port("reports", Report, Many, "Reports of the arms: the baseline's first; `arms` chooses two of them."),
                port("trajectories", Trajectories, Many, "Rollouts of the arms, in the same order."),
            ],
            outputs: vec![
                port("report", Report, One, "Both values, their difference and its interval; models also by level."),
                port("pairs", Table, One, "Both values of every shared problem, by metric and table."),
            ],
        }
    }

    fn prepare(&self, options: Value) -> Result<CompareConfig> {
        self.parse(options)
    }

    fn run(&self, config: CompareConfig, context: &mut StageContext) -> Result<()> {
        // Lists that are known only at run time are checked here for the first time.
        refuse(config.problems_with(&context.wired()))?;
        let models = config.models();
        let mut report = StageReport::new(title(&config));
        let mut rows = Vec::new();
        let mut overview = Overview::default();
        for (a, b) in &models {
            let row =
                ModelRow { metric: &config.metric, name: &CompareConfig::row_name(&config.metric, a, models.len()) };
            let mut part = StageReport::new("");
            rows.extend(pool::compare(&row, (a, b), config.pool, context, &mut part)?);
            overview.add(a, part, context);
        }
        overview.write(&config, &mut report);
        if !config.metrics.is_empty() {
            rows.extend(arms::compare(&config, context, &mut report)?);
        }
        pair_rows::write(&context.output_parquet("pairs")?, &rows)?;
        context.write_report("report", report, &DeclaredMetrics::default())
    }
}

/// Returns the heading: the compared names.
fn title(config: &CompareConfig) -> String {
    let models = config.models();
    let arms = config.arm_pairs();
    let pairs: Vec<(&str, &str)> =
        if models.is_empty() { arms.iter().map(|pair| (pair.a, pair.b)).collect() } else { models };
    let baseline = pairs.first().map_or("", |(_, b)| b);
    let others: Vec<&str> = pairs.iter().map(|(a, _)| *a).collect();
    format!("{} against {baseline}", others.join(", "))
}

#[cfg(test)]
mod tests;
