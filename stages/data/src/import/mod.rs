//! Implements the stage `data/import`, which converts rows of other formats to problems, trajectories, preference pairs
//! or solutions. An unreadable row becomes an output with its reason and is counted; no row is skipped silently.

pub mod alpaca;
pub mod chat;
pub mod flow;
pub mod format;
pub mod gsm8k;
pub mod gsm8k_solutions;
pub mod jsonl;
pub mod openai;
pub mod preferences;
pub mod registry;
pub mod rows;
pub mod sharegpt;
pub mod tau2;
pub mod toolrl;
pub mod trl;
pub mod verl;

pub use format::{ImportContext, ImportFormat, ImportRow, ImportedRows, RowConverter};

use crate::facts::{ENVIRONMENT, META_COLUMNS};
use crate::identity::Half;
use flow::columns::{absent_column, expect_columns};
use flow::{DuplicatePolicy, FirstRows, ImportCounts, ImportErrorPolicy, ImportTables, detect};
use rows::MAX_FILE_BYTES;
use rows::files::ImportFile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use trainyard_api::{Family, Ports, PreparedOptions, Stage, StageContext, port};
use trainyard_core::{
    ArtifactKind, Cardinality, DeclaredMetrics, Error, Facts, MetricInfo, OptionProblem, Producers, Result, WiredInputs,
};
use trainyard_hub::{Hub, HubLocation, HubSettings, RepositoryKind, SCHEME};

const OUTPUTS: [&str; 5] = ["problems", "trajectories", "preferences", "solutions", "quarantine"];
/// Default maximum share of unreadable rows.
const MOST_QUARANTINED: f64 = 0.05;

/// Options of `data/import`.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImportConfig {
    /// A file, a pattern such as `data/*.parquet`, or a folder, of which the files of `split` are read; or one of these
    /// in a data set of the Hugging Face hub: `hf://datasets/OWNER/NAME@REVISION/PATH`. JSON Lines, JSON, CSV, TSV,
    /// Parquet and text, also compressed by gzip or Zstandard.
    #[schemars(extend("format" = "sources"))]
    pub source: String,
    /// Format of the rows; detected by their columns if omitted.
    #[serde(default)]
    pub format: Option<String>,
    /// Names of the source's columns, by the names that the format reads: `{prompt: question, answer: gold}`.
    #[serde(default)]
    pub columns: BTreeMap<String, String>,
    /// Split of the rows, written into the column `split`; selects the files if `source` is a folder.
    #[serde(default = "train")]
    pub split: String,
    /// Keep only one half of the rows, by the first bit of the SHA-256 of the question.
    #[serde(default)]
    pub half: Option<Half>,
    /// Keep at most this many rows, the first ones (after `half`).
    #[serde(default)]
    pub limit: Option<u64>,
    /// Environment that poses the problems; the format's default if omitted.
    #[serde(default)]
    pub environment: Option<String>,
    /// Column `source` of problems, and prefix of their ids; the format's name if omitted.
    #[serde(default)]
    pub name: Option<String>,
    /// Handling of a row that repeats an earlier one: `keep`, or `drop` rows whose messages all equal those of an
    /// earlier row. The id of a kept problem with a repeated question ends with its position.
    #[serde(default)]
    pub duplicates: DuplicatePolicy,
    /// Handling of an unreadable row: `quarantine`, or `fail` at the first one.
    #[serde(default)]
    pub on_error: ImportErrorPolicy,
    /// Maximum share of unreadable rows; with more, the stage fails.
    #[serde(default = "most_quarantined")]
    #[schemars(range(min = 0, max = 1))]
    pub max_quarantined: f64,
    /// Maximum bytes of one file after decompression, by default 16 GiB; a larger file is an error.
    #[serde(default = "max_file_bytes", skip_serializing_if = "is_max_file_bytes")]
    #[schemars(range(min = 1))]
    pub max_file_bytes: u64,
}

fn train() -> String {
    "train".into()
}

fn max_file_bytes() -> u64 {
    MAX_FILE_BYTES
}

fn is_max_file_bytes(bytes: &u64) -> bool {
    *bytes == MAX_FILE_BYTES
}

fn most_quarantined() -> f64 {
    MOST_QUARANTINED
}

pub struct ImportStage {
    /// Supported formats.
    pub formats: Arc<Family<&'static dyn ImportFormat>>,
}

impl Stage for ImportStage {
    type Prepared = PreparedImport;
    const NAME: &'static str = "data/import";
    const VERSION: u32 = 5;
    const SUMMARY: &'static str =
        "Read problems, conversations, preference pairs or solutions from files of other programs.";
    const DOC: &'static str = include_str!("import.md");
    const EXAMPLE: &'static str = r#"{"source": "data/gsm8k", "format": "gsm8k", "split": "train"}"#;
    const MAIN_METRIC: Option<&'static str> = Some("rows");

    const FAMILIES: &'static [&'static str] = &["import"];

    fn metrics(&self) -> DeclaredMetrics {
        vec![
            MetricInfo::new("rows", "rows", "Rows that were imported."),
            MetricInfo::new("quarantined", "rows", "Rows that could not be read.").lower(),
            MetricInfo::new("dropped", "rows", "Rows left out because they repeat earlier ones."),
            MetricInfo::new("problems", "rows", "Problems, of a format that yields them.").optional(),
            MetricInfo::new("trajectories", "rows", "Trajectories, of a format that yields them.").optional(),
            MetricInfo::new("preferences", "pairs", "Preference pairs, of a format that yields them.").optional(),
            MetricInfo::new("solutions", "rows", "Graded solutions, of a format that yields them.").optional(),
        ]
        .into()
    }
    /// Declares the metrics of the format. If the options name no format, all metrics stay declared, because the rows
    /// determine the format.
    fn declared_metrics(&self, prepared: &PreparedImport, _: &Producers) -> DeclaredMetrics {
        let mut declared = self.metrics();
        if let Ok(Some(format)) = prepared.format {
            let any_format = |name: &str| ["rows", "quarantined", "dropped"].contains(&name);
            declared.metrics.retain(|m| any_format(&m.name) || format.outputs().contains(&m.name.as_str()));
            declared.metrics.iter_mut().for_each(|metric| metric.optional = false);
        }
        declared
    }
    fn ports(&self) -> Ports {
        let output = |name, kind, doc| port(name, kind, Cardinality::Optional, doc);
        Ports {
            inputs: Vec::new(),
            outputs: vec![
                output("problems", ArtifactKind::Problems, "Problems to solve."),
                output("trajectories", ArtifactKind::Trajectories, "Conversations, as text; tokens are made by `sft`."),
                output(
                    "preferences",
                    ArtifactKind::Trajectories,
                    "Pairs of conversations: of each group, sample 0 (reward 1) was chosen over sample 1 (reward 0).",
                ),
                output(
                    "solutions",
                    ArtifactKind::Table,
                    "Graded solutions: problem_id, question, answer, solver, solution, correct, split, parents.",
                ),
                output(
                    "quarantine",
                    ArtifactKind::Table,
                    "Rows that could not be read: file, line, reason. Left out if there are none.",
                ),
            ],
        }
    }

    fn schema(&self) -> Value {
        let mut schema = schemars::schema_for!(ImportConfig).to_value();
        let names = self.formats.names().into_iter().map(Value::from);
        schema["properties"]["format"]["enum"] = names.chain([Value::Null]).collect();
        schema
    }

    fn prepare(&self, options: Value) -> Result<PreparedImport> {
        let config = self.parse(options)?;
        let find = |name: &String| self.format(name).map_err(|problem| problem.with_prefix("/format"));
        let format = config.format.as_ref().map(find).transpose();
        let formats = self.formats.names();
        let formats = formats.into_iter().filter_map(|name| self.format(name).ok()).collect();
        Ok(PreparedImport { config, format, formats })
    }

    fn run(&self, prepared: PreparedImport, context: &mut StageContext) -> Result<()> {
        let PreparedImport { config, format, formats } = prepared;
        let format = format.map_err(|problem| Error::invalid(problem.message))?;
        let files = limited(files(&config, format, context)?, &config);
        expect_columns(&files, &config.columns)?;
        let format = format.map_or_else(|| detect::detect(&files, &formats, &config.columns), Ok)?;
        let reading = ImportContext {
            split: config.split.clone(),
            half: config.half,
            limit: config.limit,
            environment: config.environment.clone(),
            name: config.name.clone().unwrap_or_else(|| format.name().to_string()),
            columns: config.columns.clone(),
        };
        let places = OUTPUTS.iter().map(|port| Ok((*port, context.output_parquet(port)?))).collect::<Result<_>>()?;
        let go_on = |counts: ImportCounts| {
            context.progress(counts.read, 0, "rows", None);
            context.stop_if_cancelled()
        };
        let import = flow::Importer {
            format,
            reading: &reading,
            on_error: config.on_error,
            duplicates: config.duplicates,
            max_quarantined: config.max_quarantined,
            on_chunk: &go_on,
        };
        let counts = import.run(&files, &mut ImportTables::at(places))?;
        report_counts(counts, format, context);
        Ok(())
    }
}

/// Sets the limit of the options for every file.
fn limited(files: Vec<ImportFile>, config: &ImportConfig) -> Vec<ImportFile> {
    files.into_iter().map(|file| file.at_most(config.max_file_bytes)).collect()
}

/// Returns the files that the options name. Files on the hub are fetched first.
fn files(config: &ImportConfig, format: Option<&dyn ImportFormat>, context: &StageContext) -> Result<Vec<ImportFile>> {
    if !config.source.starts_with(SCHEME) {
        return rows::files::source_files(Path::new(&config.source), format, &config.split);
    }
    let variable = |name: &str| context.env.get(name).cloned().or_else(|| std::env::var(name).ok());
    let hub = Hub::new(HubSettings::read(variable));
    let location = HubLocation::read_as(RepositoryKind::Dataset, &config.source)?;
    rows::remote::remote_files(&hub, &location, format, &config.split, || context.stop_if_cancelled())
}

impl ImportStage {
    fn format(&self, name: &str) -> Result<&'static dyn ImportFormat, OptionProblem> {
        let chosen = self.formats.read(&json!(name))?;
        chosen.build(&()).map(|format| *format).map_err(|e| OptionProblem::new("", e.message))
    }
}

/// Options of `data/import` with the format that they name.
pub struct PreparedImport {
    config: ImportConfig,
    format: Result<Option<&'static dyn ImportFormat>, OptionProblem>,
    formats: Vec<&'static dyn ImportFormat>,
}

impl PreparedOptions for PreparedImport {
    type Config = ImportConfig;
    fn config(&self) -> &ImportConfig {
        &self.config
    }
    fn problems(&self) -> Vec<OptionProblem> {
        let config = &self.config;
        let mut problems: Vec<OptionProblem> = self.format.as_ref().err().cloned().into_iter().collect();
        if config.limit == Some(0) {
            problems.push(
                OptionProblem::new("/limit", "a limit of 0 imports no rows").help("leave `limit` out for all rows"),
            );
        }
        problems.extend(self.unread_columns());
        problems.extend(OptionProblem::out_of_range("/max_quarantined", config.max_quarantined, 0.0..=1.0));
        problems.extend(OptionProblem::out_of_range("/max_file_bytes", config.max_file_bytes, 1..=u64::MAX));
        problems
    }

    /// Returns the first column of the option `columns` that a local source lacks. A source that cannot be read is an
    /// error of the run.
    fn problems_with_sources(&self, locations: &BTreeMap<String, String>) -> Vec<OptionProblem> {
        let files = locations.get("/source").and_then(|location| self.local_files(location));
        let absent = files.and_then(|files| absent_column(&files, &self.config.columns).ok()).flatten();
        let problem = |(name, error): (String, Error)| OptionProblem {
            pointer: column_pointer(&name),
            ..OptionProblem::from(error)
        };
        absent.map(problem).into_iter().collect()
    }
    /// Returns the environment if the options name one or the first rows of a local source have a common one, and the
    /// further columns of these rows.
    fn facts(&self, _inputs: &WiredInputs) -> BTreeMap<String, Facts> {
        let first = self.first_rows();
        let common = first.as_ref().and_then(|rows| rows.environment);
        let environment = self.config.environment.as_deref().or(common);
        let environment = environment.map(|kind| (ENVIRONMENT.to_string(), json!(kind)));
        let columns = first.as_ref().map(|rows| (META_COLUMNS.to_string(), json!(rows.meta_columns)));
        let facts: Facts = environment.into_iter().chain(columns).collect();
        ["problems", "trajectories", "preferences"].map(|port| (port.to_string(), facts.clone())).into()
    }
}

impl PreparedImport {
    fn named_format(&self) -> Option<&'static dyn ImportFormat> {
        self.format.as_ref().ok().copied().flatten()
    }
    /// Returns the files of a source; `None` if it is not on this machine or cannot be read.
    fn local_files(&self, source: &str) -> Option<Vec<ImportFile>> {
        let local = Some(source).filter(|source| !source.contains("://"))?;
        let files = rows::files::source_files(Path::new(local), self.named_format(), &self.config.split).ok()?;
        Some(limited(files, &self.config))
    }
    /// Returns what the first rows of a local source say. An unreadable source is an error of the run.
    fn first_rows(&self) -> Option<FirstRows> {
        let files = self.local_files(&self.config.source)?;
        FirstRows::read(&files, self.named_format(), &self.formats, &self.config.columns).ok()
    }
    /// Returns a problem for each name of the option `columns` that the format, or no format, reads.
    fn unread_columns(&self) -> Vec<OptionProblem> {
        let formats: Vec<&dyn ImportFormat> = match self.format {
            Ok(Some(format)) => vec![format],
            _ => self.formats.iter().copied().map(|format| format as &dyn ImportFormat).collect(),
        };
        if formats.iter().any(|format| format.columns().is_empty() && self.config.format.is_some()) {
            return Vec::new();
        }
        let known: BTreeSet<&str> = formats.iter().flat_map(|format| format.columns()).copied().collect();
        let unread = self.config.columns.keys().filter(|name| !known.contains(name.as_str()));
        let reader = match &self.config.format {
            Some(format) => format!("the format `{format}` does not read"),
            None => "no format reads".to_string(),
        };
        let names = known.iter().copied().collect::<Vec<_>>().join(", ");
        let problem = |name: &String| {
            OptionProblem::new(column_pointer(name), format!("{reader} a column `{name}`"))
                .help(format!("write `name that is read: column of the source`; these are read: {names}"))
        };
        unread.map(problem).collect()
    }
}

/// Returns the pointer of an entry of the option `columns`.
fn column_pointer(name: &str) -> String {
    format!("/columns/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Reports metrics, and logs a warning about unreadable rows.
fn report_counts(counts: ImportCounts, format: &dyn ImportFormat, context: &mut StageContext) {
    let by_port = [
        ("problems", counts.problems),
        ("trajectories", counts.trajectories),
        ("preferences", counts.preferences),
        ("solutions", counts.solutions),
    ];
    for (port, count) in by_port.iter().filter(|(port, _)| format.outputs().contains(port)) {
        context.metric(*port, *count as f64);
    }
    context.metric("rows", by_port.iter().map(|(_, count)| *count).max().unwrap_or(0) as f64);
    context.metric("quarantined", counts.quarantined as f64);
    context.metric("dropped", counts.dropped as f64);
    if counts.quarantined > 0 {
        context.warn(format!(
            "{} of {} rows could not be read; the output `quarantine` says where and why",
            counts.quarantined, counts.read
        ));
    }
}

#[cfg(test)]
pub(crate) mod tests;
