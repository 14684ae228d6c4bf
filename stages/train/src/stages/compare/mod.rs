//! Stage `compare`: the paired difference of two models on the same problems, and of two arms of a recipe.
//!
//! Both comparisons ask whether a change had an effect, and both answer with differences paired by problem (arXiv
//! 2411.00640). Models are compared by their evaluation results ([`pairs`]), arms also by their rollouts and reports
//! from training ([`arms`]). Options that contradict the wired inputs are reported before anything runs. Models or arms
//! without a common problem are an error.

pub mod arm_metric;
pub mod arms;
pub mod config;
mod declared;
pub mod metrics;
pub mod models;
pub mod pairs;
pub mod trajectories;

pub use config::Config;
pub use metrics::Metric;
pub use pairs::Pairs;

use serde_json::Value;
use trainyard_api::report::Report;
use trainyard_api::stage::Ports;
use trainyard_api::stage::refuse;
use trainyard_api::{Prepared, Stage, StageContext, port};
use trainyard_core::{ArtifactKind, Cardinality, Declared, MetricRead, Producers, Result};

/// The stage kind `compare`.
#[derive(Default)]
pub struct Compare;

impl Stage for Compare {
    type Prepared = Config;
    const NAME: &'static str = "compare";
    const VERSION: u32 = 2;
    const SUMMARY: &'static str =
        "The paired difference of two models, or of two arms of a recipe, with its 95% interval.";
    const DOC: &'static str = include_str!("compare.md");
    const EXAMPLE: &'static str =
        r#"{"results": "${{ stages.evaluate.results }}", "metric": "accuracy", "a": "rl", "b": "sft"}"#;

    fn metrics(&self) -> Declared {
        declared::any()
    }
    fn declared(&self, config: &Config, producers: &Producers) -> Declared {
        declared::of(config, producers)
    }
    fn metrics_read(&self, config: &Config, producers: &Producers) -> Vec<MetricRead> {
        declared::reads(config, producers)
    }
    fn ports(&self) -> Ports {
        use ArtifactKind::{Report, Table, Trajectories};
        use Cardinality::{Many, One};
        Ports {
            inputs: vec![
                port("results", Table, Many, "Tables of `evaluate` that hold the models `a` and `b`."),
                port("reports", Report, Many, "Reports of two arms: the baseline's, then the treatment's."),
                port("trajectories", Trajectories, Many, "Rollouts of two arms: the baseline's, then the treatment's."),
            ],
            outputs: vec![port(
                "report",
                Report,
                One,
                "Both values, their difference and its interval; models also by level.",
            )],
        }
    }

    fn prepare(&self, options: Value) -> Result<Config> {
        self.parse(options)
    }

    fn run(&self, config: Config, context: &mut StageContext) -> Result<()> {
        // Lists that are only known at run time are checked here for the first time.
        refuse(config.problems_with(&context.wired()))?;
        let models = config.models();
        let (first, second) = models.unwrap_or((config.names.a.as_str(), config.names.b.as_str()));
        let mut report = Report::new(format!("{first} against {second}"));
        if let Some(models) = models {
            pairs::compare(&config.metric, models, context, &mut report)?;
        }
        if !config.metrics.is_empty() {
            arms::compare(&config, context, &mut report)?;
        }
        context.write_report("report", report, &Declared::default())
    }
}

#[cfg(test)]
mod tests;
