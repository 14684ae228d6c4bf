//! Implements the stage `data/frame`: one SQL SELECT over the rows of any inputs.

mod check;
mod config;
mod evaluate;
mod output;
mod parents;
#[cfg(test)]
mod tests;

pub use config::{FrameConfig, FrameOutput};

use config::MOST_ROWS;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use trainyard_api::stage::refuse;
use trainyard_api::{InputArtifact, Ports, PreparedOptions, Stage, StageContext, port};
use trainyard_core::{
    ArtifactKind, Cardinality, DeclaredMetrics, Error, MetricInfo, OptionProblem, Producers, Result, WiredInputs,
};
use trainyard_frames::sql::{FrameSettings, FrameStatement, FrameTable};

pub struct FrameStage;

impl Stage for FrameStage {
    type Prepared = PreparedFrame;
    const NAME: &'static str = "data/frame";
    const SUMMARY: &'static str = "Compute rows by SQL over any inputs: joins, groups, windows, sorts, samples.";
    const DOC: &'static str = include_str!("frame.md");
    const EXAMPLE: &'static str = concat!(
        r#"{"rollouts": "${{ stages.pass.trajectories }}", "#,
        r#""sql": "select problem_id, avg(reward) as mean from rollouts group by problem_id"}"#,
    );
    const MAIN_METRIC: Option<&'static str> = Some("rows");

    fn metrics(&self) -> DeclaredMetrics {
        vec![MetricInfo::new("rows", "rows", "Rows of the result.")].into()
    }
    fn declared_metrics(&self, _: &PreparedFrame, _: &Producers) -> DeclaredMetrics {
        self.metrics()
    }
    fn ports(&self) -> Ports {
        let input = |kind, doc| port("<table>", kind, Cardinality::Many, doc);
        let output = |name, kind, doc| port(name, kind, Cardinality::Optional, doc);
        Ports {
            inputs: vec![
                input(
                    ArtifactKind::Problems,
                    "A table of the statement, under any name that is no option. The rows of several artifacts follow\n\
                     each other.",
                ),
                input(ArtifactKind::Trajectories, "As above."),
                input(ArtifactKind::Table, "As above."),
            ],
            outputs: vec![
                output("table", ArtifactKind::Table, "The rows, with `output: table`."),
                output("problems", ArtifactKind::Problems, "The rows, with `output: problems`."),
                output("trajectories", ArtifactKind::Trajectories, "The rows, with `output: trajectories`."),
            ],
        }
    }

    fn prepare(&self, options: Value) -> Result<PreparedFrame> {
        let config: FrameConfig = self.parse(options)?;
        let statement = FrameStatement::parse(&config.sql);
        Ok(PreparedFrame { config, statement })
    }

    fn run(&self, prepared: PreparedFrame, context: &mut StageContext) -> Result<()> {
        // A list that was unknown before the run is first checked here.
        refuse(prepared.problems_with(&context.wired()))?;
        let PreparedFrame { config, statement } = prepared;
        let tables = tables(&statement?, context)?;
        let cancel = context.cancel.clone();
        let stopped = || Error::cancelled("the attempt was cancelled");
        let after_batch = move || if cancel.is_cancelled() { Err(stopped()) } else { Ok(()) };
        let settings =
            FrameSettings { after_batch: Arc::new(after_batch), ..FrameSettings::new(config.seed, config.max_rows) };
        let rows = evaluate::rows(&config, &tables, &settings)?;
        context.stop_if_cancelled()?;
        let written = rows.write(&context.output_parquet(config.output.port())?)?;
        if written == 0 {
            context.warn("the result of `sql` has no rows");
        }
        context.metric("rows", written as f64);
        Ok(())
    }
}

/// Returns the tables that a statement reads.
fn tables(statement: &FrameStatement, context: &StageContext) -> Result<Vec<FrameTable>> {
    let read = context.inputs.iter().filter(|(name, _)| statement.tables().contains(*name));
    read.map(|(name, artifacts)| {
        let files: Vec<PathBuf> = artifacts.iter().map(InputArtifact::parquet).collect();
        match artifacts.first().map(|artifact| artifact.kind) {
            Some(ArtifactKind::Problems) => Ok(FrameTable::problems(name, files)),
            Some(ArtifactKind::Trajectories) => Ok(FrameTable::trajectories(name, files)),
            Some(_) => FrameTable::open(name, files),
            None => Err(Error::invalid(format!("input `{name}` has no artifact"))
                .help("check the stage that makes it, or leave the input out")),
        }
    })
    .collect()
}

/// Options of `data/frame` with the statement that they contain.
pub struct PreparedFrame {
    config: FrameConfig,
    statement: Result<FrameStatement>,
}

impl PreparedOptions for PreparedFrame {
    type Config = FrameConfig;
    fn config(&self) -> &FrameConfig {
        &self.config
    }
    fn problems(&self) -> Vec<OptionProblem> {
        let unreadable = self.statement.as_ref().err().map(|error| check::at_sql(error.clone()));
        let rows = OptionProblem::out_of_range("/max_rows", self.config.max_rows, 1..=MOST_ROWS);
        unreadable.into_iter().chain(rows).collect()
    }
    fn problems_with(&self, inputs: &WiredInputs) -> Vec<OptionProblem> {
        self.statement.as_ref().map(|statement| check::problems(&self.config, statement, inputs)).unwrap_or_default()
    }
}
