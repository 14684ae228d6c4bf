//! Implements the stage `data/select`, which selects problems by split, level, half, expression, overlap with an
//! evaluation set, and number.
//!
//! Later stages (rl, prm, evaluate) take one table of problems and have no selection options, so their input is an
//! artifact with a digest. Training problems are decontaminated by the same rule as demonstrations.

mod config;
mod selection;
#[cfg(test)]
mod tests;

pub use config::SelectConfig;
pub use selection::{SelectedProblems, select};

use crate::io;
use crate::row_files::RowFiles;
use serde_json::Value;
use std::path::PathBuf;
use trainyard_api::stage::refuse;
use trainyard_api::{InputArtifact, Ports, PreparedOptions as _, Stage, StageContext, port};
use trainyard_core::{ArtifactKind, Cardinality, DeclaredMetrics, MetricInfo, Producers, Result};
use trainyard_tables::Problem;

pub struct SelectStage;

impl Stage for SelectStage {
    type Prepared = SelectConfig;
    const NAME: &'static str = "data/select";
    const VERSION: u32 = 2;
    const SUMMARY: &'static str = "Select problems by split, level, half, expression, overlap and number.";
    const DOC: &'static str = "Passes on the problems that meet every option, unchanged and in order. `half` is the \
        first bit of the SHA-256 of the question (0 is `a`), so a test split can be halved the same way everywhere. \
        `decontaminate` is the rule of `data/filter` applied to problems: each problem and its worked solution are \
        compared with the input `evaluation`. An empty selection is an error that names the option that left nothing.";
    const EXAMPLE: &'static str =
        r#"{"problems": "${{ stages.problems.problems }}", "splits": ["test"], "levels": [1, 2, 3], "limit": 300}"#;
    const MAIN_METRIC: Option<&'static str> = Some("problems");

    fn metrics(&self) -> DeclaredMetrics {
        vec![
            MetricInfo::new("problems", "rows", "Problems that were selected."),
            MetricInfo::new("problems_level_<int>", "rows", "Selected problems of this level."),
            MetricInfo::new("rejected_decontaminate", "rows", "Problems that overlap the evaluation problems.")
                .optional(),
        ]
        .into()
    }
    fn declared_metrics(&self, config: &SelectConfig, _: &Producers) -> DeclaredMetrics {
        let mut declared = self.metrics();
        declared.metrics.retain(|m| !m.optional || config.decontaminate.is_some());
        declared.metrics.iter_mut().for_each(|m| m.optional = false);
        declared
    }
    fn ports(&self) -> Ports {
        Ports {
            inputs: vec![
                port("problems", ArtifactKind::Problems, Cardinality::Many, "Problems to select from."),
                port(
                    "evaluation",
                    ArtifactKind::Problems,
                    Cardinality::Many,
                    "Evaluation problems that no selected one may overlap (`decontaminate`).",
                ),
            ],
            outputs: vec![port("problems", ArtifactKind::Problems, Cardinality::One, "The selected problems.")],
        }
    }

    fn prepare(&self, options: Value) -> Result<SelectConfig> {
        self.parse(options)
    }

    fn run(&self, config: SelectConfig, context: &mut StageContext) -> Result<()> {
        // A list that was unknown before the run is first checked here.
        refuse(config.problems_with(&context.wired()))?;
        let files: Vec<PathBuf> = context.many("problems").iter().map(InputArtifact::parquet).collect();
        let evaluation = io::read_many_problems(context.many("evaluation"))?;
        let output = context.output_parquet("problems")?;
        let files = RowFiles::<Problem>::strict(&files);
        let selected = select(&files, &evaluation, &config, &context.scratch, &output)?;
        if config.decontaminate.is_some() {
            context.metric("rejected_decontaminate", selected.overlapping as f64);
        }
        context.metric("problems", selected.problems as f64);
        for (level, n) in selected.levels {
            context.metric(format!("problems_level_{level}"), n as f64);
        }
        Ok(())
    }
}
