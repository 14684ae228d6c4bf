//! Implements the stage `forgetting`, which measures the retention of earlier tasks by a model that was trained on one
//! task after another.
//!
//! Continual post-training is judged by the matrix of all models on all tasks (arXiv 2507.05386). The stage computes
//! the matrix from the tables of `evaluate` and loads no model.

pub mod config;
mod declared;
pub mod matrix;
mod report;
#[cfg(test)]
mod tests;

pub use config::ForgettingConfig;
pub use matrix::AccuracyMatrix;

use crate::results::{ResultRow, read_results};
use serde_json::Value;
use trainyard_api::stage::refuse;
use trainyard_api::{Ports, PreparedOptions, Stage, StageContext, port};
use trainyard_core::{ArtifactKind, Cardinality, DeclaredMetrics, Producers, Result};

#[derive(Default)]
pub struct Forgetting;

impl Stage for Forgetting {
    type Prepared = ForgettingConfig;
    const NAME: &'static str = "forgetting";
    const SUMMARY: &'static str =
        "how much of earlier tasks a model forgets when it is trained on one task after another";
    const DOC: &'static str = include_str!("forgetting.md");
    const EXAMPLE: &'static str = concat!(
        r#"{"results": "${{ stages.evaluate.results }}", "models": ["after_short", "after_long"], "#,
        r#""tasks": [{"name": "short", "levels": [1, 2]}, {"name": "long", "levels": [3, 4]}]}"#
    );
    const MAIN_METRIC: Option<&'static str> = Some("forgetting");

    fn metrics(&self) -> DeclaredMetrics {
        declared::any().into()
    }
    fn declared_metrics(&self, config: &ForgettingConfig, _: &Producers) -> DeclaredMetrics {
        declared::of(config).into()
    }
    fn ports(&self) -> Ports {
        Ports {
            inputs: vec![port(
                "results",
                ArtifactKind::Table,
                Cardinality::Many,
                "Tables of `evaluate` that hold the models, in the order in which they were trained.",
            )],
            outputs: vec![port(
                "report",
                ArtifactKind::Report,
                Cardinality::One,
                "The matrix, forgetting by task, and both averages.",
            )],
        }
    }

    fn prepare(&self, options: Value) -> Result<ForgettingConfig> {
        self.parse(options)
    }

    fn run(&self, config: ForgettingConfig, context: &mut StageContext) -> Result<()> {
        // Lists that are known only at run time are checked here for the first time.
        refuse(config.problems_with(&context.wired()))?;
        let tables = context
            .many("results")
            .iter()
            .map(|t| read_results(&t.parquet()))
            .collect::<Result<Vec<Vec<ResultRow>>>>()?;
        let matrix = AccuracyMatrix::new(&config, &tables)?;
        let report = report::describe(&config, &matrix, context)?;
        context.write_report("report", report, &declared::of(&config).into())
    }
}
