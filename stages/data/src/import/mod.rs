//! Stage `data/import`: rows of other formats become problems, trajectories or solutions. A row that cannot be read
//! fails the stage with the file and line; nothing is skipped silently.

pub mod chat;
pub mod format;
pub mod gsm8k;
pub mod gsm8k_solutions;
pub mod jsonl;
pub mod openai;
pub mod registry;
pub mod sharegpt;
pub mod tau2;
pub mod toolrl;
pub mod trl;
pub mod verl;

pub use format::{Format, Imported, Reading};

use crate::facts::ENVIRONMENT;
use crate::identity::Half;
use crate::io;
use crate::parts::Parts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trainyard_api::{Chosen, Ports, Prepared, Stage, StageContext, port};
use trainyard_core::{
    ArtifactKind, Cardinality, Declared, Error, Facts, Metric, OptionProblem, Producers, Result, Wired,
};

/// Options of `data/import`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// A file, or a folder that holds the format's file (for `gsm8k`: `<split>.jsonl`).
    #[schemars(extend("format" = "source"))]
    pub source: String,
    /// How the rows are written.
    pub format: String,
    /// The split that the rows belong to, written into the column `split`; names the file if `source` is a folder.
    #[serde(default = "train")]
    pub split: String,
    /// Keep only one half of the rows, by the first bit of the SHA-256 of the question.
    #[serde(default)]
    pub half: Option<Half>,
    /// Keep at most this many rows, the first ones (after `half`).
    #[serde(default)]
    pub limit: Option<u64>,
    /// The environment that poses the problems; the format's own if left out.
    #[serde(default)]
    pub environment: Option<String>,
    /// The column `source` of problems, and the prefix of their ids; the format's name if left out.
    #[serde(default)]
    pub name: Option<String>,
}

fn train() -> String {
    "train".into()
}

/// The stage kind `data/import`.
pub struct Import {
    /// The formats that it reads.
    pub parts: Arc<Parts>,
}

impl Stage for Import {
    type Prepared = PreparedImport;
    const NAME: &'static str = "data/import";
    const VERSION: u32 = 2;
    const SUMMARY: &'static str = "Read problems, conversations or solutions from a file of another format.";
    const DOC: &'static str = include_str!("import.md");
    const EXAMPLE: &'static str = r#"{"source": "data/gsm8k", "format": "gsm8k", "split": "train"}"#;
    const MAIN_METRIC: Option<&'static str> = Some("rows");

    const FAMILIES: &'static [&'static str] = &["import"];

    fn metrics(&self) -> Declared {
        vec![
            Metric::new("rows", "rows", "Rows that were imported."),
            Metric::new("problems", "rows", "Problems, of a format that yields them.").optional(),
            Metric::new("trajectories", "rows", "Trajectories, of a format that yields them.").optional(),
            Metric::new("solutions", "rows", "Graded solutions, of a format that yields them.").optional(),
            Metric::new("tools_dropped", "rows", "Rows whose tool schemas were dropped.").lower().optional(),
        ]
        .into()
    }
    fn declared(&self, prepared: &PreparedImport, _: &Producers) -> Declared {
        let format = prepared.format.as_ref().ok().and_then(|format| format.build(&()).ok());
        let yields = format.map(|format| format.yields()).unwrap_or_default();
        let mut declared = self.metrics();
        let any_format = |name: &str| ["rows", "tools_dropped"].contains(&name);
        declared.metrics.retain(|m| any_format(&m.name) || yields.contains(&m.name.as_str()));
        for metric in declared.metrics.iter_mut().filter(|m| m.name != "tools_dropped") {
            metric.optional = false;
        }
        declared
    }
    fn ports(&self) -> Ports {
        let output = |name, kind, doc| port(name, kind, Cardinality::Optional, doc);
        Ports {
            inputs: Vec::new(),
            outputs: vec![
                output("problems", ArtifactKind::Problems, "What to solve."),
                output("trajectories", ArtifactKind::Trajectories, "Conversations, as text; tokens are made by `sft`."),
                output(
                    "solutions",
                    ArtifactKind::Table,
                    "Graded solutions: problem_id, question, answer, solver, solution, correct, split.",
                ),
            ],
        }
    }

    fn schema(&self) -> Value {
        let mut schema = schemars::schema_for!(Config).to_value();
        schema["properties"]["format"]["enum"] = json!(self.parts.import.names());
        schema
    }

    fn prepare(&self, options: Value) -> Result<PreparedImport> {
        let config = self.parse(options)?;
        let format = self.parts.import.read(&json!(config.format)).map_err(|problem| problem.within("/format"));
        Ok(PreparedImport { config, format })
    }

    fn run(&self, prepared: PreparedImport, context: &mut StageContext) -> Result<()> {
        let PreparedImport { config, format } = prepared;
        let format = format.map_err(|problem| Error::invalid(problem.message))?;
        let format = *format.build(&())?;
        let file = locate(Path::new(&config.source), format, &config.split)?;
        let reading = Reading {
            split: config.split.clone(),
            half: config.half,
            limit: config.limit.map(|n| n as usize),
            environment: config.environment.clone(),
            name: config.name.clone().unwrap_or_else(|| format.name().to_string()),
        };
        let imported = format.read(&file, &reading)?;
        publish(imported, format, context)
    }
}

/// Options of `data/import` with the format that they name.
pub struct PreparedImport {
    config: Config,
    format: Result<Chosen<&'static dyn Format>, OptionProblem>,
}

impl Prepared for PreparedImport {
    type Config = Config;
    fn config(&self) -> &Config {
        &self.config
    }
    fn problems(&self) -> Vec<OptionProblem> {
        let config = &self.config;
        let mut problems: Vec<OptionProblem> = self.format.as_ref().err().cloned().into_iter().collect();
        if config.limit == Some(0) {
            problems.push(
                OptionProblem::new("/limit", "0 rows are nothing to import").help("leave `limit` out for all rows"),
            );
        }
        problems
    }

    /// Known where the option names it; a format may give every row its own.
    fn facts(&self, _inputs: &Wired) -> BTreeMap<String, Facts> {
        let named = self.config.environment.as_ref().map(|kind| (ENVIRONMENT.to_string(), json!(kind)));
        let facts: Facts = named.into_iter().collect();
        ["problems", "trajectories"].map(|port| (port.to_string(), facts.clone())).into()
    }
}

/// The file itself, or the format's file in a folder.
fn locate(source: &Path, format: &dyn Format, split: &str) -> Result<PathBuf> {
    let file = if source.is_dir() { source.join(format.file_name(split)) } else { source.to_path_buf() };
    if file.is_file() {
        return Ok(file);
    }
    Err(Error::invalid(format!("{}: no such file", file.display())).help(format!(
        "give `source` the path of a {} file, or of a folder that holds `{}`",
        format.name(),
        format.file_name(split)
    )))
}

/// Writes every output that the format yields; an output that is always empty for a format is not written.
fn publish(imported: Imported, format: &dyn Format, context: &mut StageContext) -> Result<()> {
    let Imported { problems, trajectories, solutions, tools_dropped } = imported;
    let rows = problems.len().max(trajectories.len()).max(solutions.len());
    if rows == 0 {
        return Err(Error::data(format!("no row of format `{}` is left to import", format.name()))
            .help("look at `half`, `limit` and the file"));
    }
    for (port, count) in
        [("problems", problems.len()), ("trajectories", trajectories.len()), ("solutions", solutions.len())]
    {
        if format.yields().contains(&port) {
            context.metric(port, count as f64);
        }
    }
    context.metric("rows", rows as f64);
    if tools_dropped > 0 {
        context.metric("tools_dropped", tools_dropped as f64);
        context.warn(format!(
            "the tool schemas of {tools_dropped} of {rows} rows were dropped: trajectories have no column for \
             them yet, so a model trained on these rows does not see which tools it is offered"
        ));
    }
    if format.yields().contains(&"problems") {
        io::write_problems(&context.output_parquet("problems")?, &problems)?;
    }
    if format.yields().contains(&"trajectories") {
        io::write_trajectories(&context.output_parquet("trajectories")?, &trajectories)?;
    }
    if format.yields().contains(&"solutions") {
        crate::solutions::write(&context.output_parquet("solutions")?, &solutions)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
