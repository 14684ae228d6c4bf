//! Implements the stage `data/frame`: one SQL SELECT over the rows of any inputs.

mod check;
mod output;
mod parents;
#[cfg(test)]
mod tests;

use output::OutputRows;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::PathBuf;
use std::sync::Arc;
use trainyard_api::stage::refuse;
use trainyard_api::{InputArtifact, Ports, PreparedOptions, Stage, StageContext, port};
use trainyard_core::{
    ArtifactKind, Cardinality, DeclaredMetrics, Error, MetricInfo, OptionProblem, Producers, Result, WiredInputs,
};
use trainyard_frames::sql::{FrameResult, FrameSettings, FrameStatement, FrameTable};

/// Default of `max_rows`.
const MAX_ROWS: u64 = 10_000_000;
/// Largest value of `max_rows`: frames number their rows by 32 bits.
const MOST_ROWS: u64 = u32::MAX as u64 - 1;

/// Kind of the rows of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum FrameOutput {
    /// Rows of any columns.
    #[default]
    Table,
    /// Problems.
    Problems,
    /// Trajectories.
    Trajectories,
}

impl FrameOutput {
    /// Returns the name of the output port.
    fn port(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Problems => "problems",
            Self::Trajectories => "trajectories",
        }
    }
}

/// Options of `data/frame`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FrameConfig {
    /// One SELECT over the inputs, whose names are those of the tables.
    pub sql: String,
    /// Kind of the rows, and name of the output: `table` for any columns, `problems` or `trajectories` for the columns
    /// of these kinds.
    #[serde(default)]
    pub output: FrameOutput,
    /// Seed of the numbers of `random(…)`.
    #[serde(default)]
    pub seed: u64,
    /// Maximum rows of the result, and of every join. With more, the stage fails.
    #[serde(default = "max_rows")]
    #[schemars(range(min = 1, max = 4_294_967_294_u64))]
    pub max_rows: u64,
}

fn max_rows() -> u64 {
    MAX_ROWS
}

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
        let rows = rows(&config, &tables, &settings)?;
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

/// Runs the statement of some options. Errors: those of the statement, and of a result that is not of its kind.
fn rows(config: &FrameConfig, tables: &[FrameTable], settings: &FrameSettings) -> Result<OutputRows> {
    let statement = FrameStatement::parse(&config.sql)?;
    let has_id = |name: &String| tables.iter().any(|table| table.name() == name && table.columns().any(|c| c == "id"));
    let of_one = statement.tables().iter().all(has_id).then(|| statement.with_source_ids()).flatten();
    let of_one = of_one.filter(|_| config.output != FrameOutput::Problems);
    let result: FrameResult = of_one.unwrap_or(statement).run(tables, settings)?;
    OutputRows::new(result, config.output)
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
