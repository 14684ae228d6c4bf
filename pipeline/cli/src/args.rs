//! The command line's grammar. Doc comments are the help texts.

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use trainyard_core::units::{parse_duration, parse_size};

/// Turns a base language model into a tool-using agent by one YAML file.
#[derive(Debug, Parser)]
#[command(name = "trainyard", version, about, propagate_version = true, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a workflow; what is unchanged comes from the cache, what was interrupted goes on.
    Run(RunArgs),
    /// Report every mistake of one or more workflow files at once.
    Check(CheckArgs),
    /// Show for every stage whether it would run or come from the cache, and why.
    Plan(PlanArgs),
    /// Look at runs: list, show, cancel, resume.
    Runs(RunsArgs),
    /// Print what a run's stages logged.
    Logs(LogsArgs),
    /// Say why a stage is in the state it is in.
    Explain(ExplainArgs),
    /// Look at artifacts: list, show, query, export, collect garbage.
    Artifacts(ArtifactsArgs),
    /// Documentation of stage kinds, parts and executors.
    Stages(StagesArgs),
    /// Published systems, each a recipe that shows its mechanism act: list them, run them both ways, write the table of effects.
    Recipes(RecipesArgs),
    /// Print the JSON Schema of workflow files for editors.
    Schema(SchemaArgs),
    /// Write a first workflow file, a site file and the schema into a folder.
    Init(InitArgs),
    /// Check this machine, the site file and the store.
    Doctor(DoctorArgs),
    /// Recompute stored vectors of RL algorithms with the parts of this build.
    Parity(ParityArgs),
    /// Run one attempt of a stage (started by executors).
    #[command(hide = true)]
    Attempt(AttemptArgs),
    /// Answer one statement of `artifacts query` (started by it).
    #[command(hide = true)]
    QueryWorker,
    /// Serve tool calls on standard input and output (started by environments).
    #[command(hide = true)]
    ToolWorker,
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
pub enum Format {
    #[default]
    Text,
    Json,
}

/// The site: which store, which pools.
#[derive(Debug, Clone, Default, Args)]
pub struct SiteArgs {
    /// Store URL: a folder, `file://…`, `s3://bucket/prefix`. Overrides the site file.
    #[arg(long, value_name = "URL", global = true)]
    pub store: Option<String>,
    /// Site file; otherwise `trainyard.yaml` is looked for upward from the working directory.
    #[arg(long, value_name = "FILE", global = true)]
    pub site: Option<PathBuf>,
}

/// A workflow file and its parameters.
#[derive(Debug, Clone, Args)]
pub struct WorkflowArgs {
    /// Workflow file.
    pub file: PathBuf,
    #[command(flatten)]
    pub params: ParamArgs,
}

#[derive(Debug, Clone, Default, Args)]
pub struct ParamArgs {
    /// Parameter `name=value`, or `@file` with one YAML map of parameters. May be repeated.
    #[arg(short = 'p', long = "param", value_name = "NAME=VALUE|@FILE")]
    pub params: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub workflow: WorkflowArgs,
    #[command(flatten)]
    pub site: SiteArgs,
    /// Run this stage and what it needs, nothing after it. May be repeated.
    #[arg(long, value_name = "STAGE")]
    pub until: Vec<String>,
    /// Run only this stage; what it reads must be in the cache. May be repeated.
    #[arg(long, value_name = "STAGE")]
    pub only: Vec<String>,
    /// Run this stage again even if it is in the cache. May be repeated.
    #[arg(long, value_name = "STAGE")]
    pub rerun: Vec<String>,
    /// Stop at the first failed stage.
    #[arg(long)]
    pub fail_fast: bool,
    /// Start a new run even if an interrupted one of the same plan exists.
    #[arg(long)]
    pub new: bool,
    /// Take over an interrupted run although its writer may still be alive.
    #[arg(long)]
    pub take_over: bool,
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Clone, Args)]
pub struct CheckArgs {
    /// Workflow files.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub params: ParamArgs,
    #[arg(long, value_name = "FILE")]
    pub site: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Clone, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    pub workflow: WorkflowArgs,
    #[command(flatten)]
    pub site: SiteArgs,
    #[arg(long, value_enum, default_value_t)]
    pub format: PlanFormat,
}

/// How a plan is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum PlanFormat {
    #[default]
    Text,
    Json,
    /// A Mermaid flowchart.
    Mermaid,
}

#[derive(Debug, Clone, Args)]
pub struct RunsArgs {
    #[command(subcommand)]
    pub command: Option<RunsCommand>,
    #[command(flatten)]
    pub site: SiteArgs,
    #[arg(long, value_enum, default_value_t, global = true)]
    pub format: Format,
}

#[derive(Debug, Clone, Subcommand)]
pub enum RunsCommand {
    /// All runs of the store, newest first.
    List {
        /// At most this many.
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// One run: every stage, its state, time, attempts and metrics.
    Show {
        run: String,
        /// Print again whenever it changes, until the run ends.
        #[arg(long)]
        watch: bool,
    },
    /// Ask the writer of a run to stop it.
    Cancel { run: String },
    /// Go on with an interrupted run.
    Resume {
        run: String,
        /// Although its writer may still be alive.
        #[arg(long)]
        take_over: bool,
    },
}

#[derive(Debug, Clone, Args)]
pub struct LogsArgs {
    /// Run id, a unique beginning of it, or `latest`.
    pub run: String,
    /// Only this stage.
    pub stage: Option<String>,
    #[command(flatten)]
    pub site: SiteArgs,
    /// `json` prints one document a line: stage, attempt, text.
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Clone, Args)]
pub struct ExplainArgs {
    /// Run id, a unique beginning of it, or `latest`.
    pub run: String,
    pub stage: String,
    #[command(flatten)]
    pub site: SiteArgs,
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Clone, Args)]
pub struct ArtifactsArgs {
    #[command(subcommand)]
    pub command: ArtifactsCommand,
    #[command(flatten)]
    pub site: SiteArgs,
    #[arg(long, value_enum, default_value_t, global = true)]
    pub format: Format,
}

/// An artifact is named `RUN/STAGE/OUTPUT` (`latest/rl/model`), or `DIGEST/OUTPUT` with a stage digest.
#[derive(Debug, Clone, Subcommand)]
pub enum ArtifactsCommand {
    /// All artifacts of a run.
    List {
        /// Run id, a unique beginning of it, or `latest`.
        #[arg(default_value = "latest")]
        run: String,
    },
    /// Files, schema, column statistics, provenance and a preview.
    Show {
        artifact: String,
        /// Rows of the preview.
        #[arg(long, default_value_t = 5)]
        rows: usize,
    },
    /// One read-only SQL statement over a table artifact, called `self`.
    Query(QueryArgs),
    /// Copy an artifact's files into a folder, or a table into a `.csv` or `.jsonl` file.
    Export { artifact: String, to: PathBuf },
    /// List objects that no manifest or checkpoint names, and delete them with `--delete`.
    Gc {
        #[arg(long)]
        delete: bool,
    },
}

#[derive(Debug, Clone, Args)]
pub struct QueryArgs {
    /// The artifact and the statement.
    #[arg(required = true, num_args = 2, value_names = ["ARTIFACT", "SQL"])]
    pub words: Vec<String>,
    /// Most rows returned.
    #[arg(long, default_value_t = 1000)]
    pub limit: usize,
    /// Most time for the statement, e.g. `5m`.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub timeout: Duration,
    /// Most memory for the statement, e.g. `8GiB`; half of this machine's if not given.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
}

#[derive(Debug, Clone, Args)]
pub struct StagesArgs {
    /// A stage kind (`sft`), a family (`losses`), a part (`losses/clip`, `grpo`) or an executor; all in one line each without it.
    pub kind: Option<String>,
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Clone, Args)]
pub struct RecipesArgs {
    #[command(subcommand)]
    pub command: Option<RecipesCommand>,
    /// Folder of recipe files.
    #[arg(long, value_name = "FOLDER", default_value = "workflows/recipes", global = true)]
    pub folder: PathBuf,
    /// Write the table of all systems with the effects that this store holds into a Markdown file.
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Parameter of every recipe, `name=value` or `@file`. May be repeated.
    #[arg(short = 'p', long = "param", value_name = "NAME=VALUE|@FILE", global = true)]
    pub params: Vec<String>,
    #[command(flatten)]
    pub site: SiteArgs,
    #[arg(long, value_enum, default_value_t, global = true)]
    pub format: Format,
}

#[derive(Debug, Clone, Subcommand)]
pub enum RecipesCommand {
    /// Run recipes with their mechanism on, then off: on, every check must hold; off, every mechanism check must fail, every guard
    /// must hold, and nothing may be trained again.
    Run {
        /// File names without `.yaml`; all without any.
        names: Vec<String>,
    },
}

#[derive(Debug, Clone, Args)]
pub struct SchemaArgs {
    #[arg(long, value_enum, default_value_t)]
    pub format: SchemaFormat,
}

/// How a schema is printed: it has one form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum SchemaFormat {
    #[default]
    Json,
}

#[derive(Debug, Clone, Args)]
pub struct InitArgs {
    /// Folder to write into.
    #[arg(default_value = ".")]
    pub folder: PathBuf,
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub site: SiteArgs,
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Clone, Args)]
pub struct ParityArgs {
    /// JSON: `{cases: [{kind, name, inputs, config, expected}]}`.
    pub file: PathBuf,
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
}

#[derive(Debug, Clone, Args)]
pub struct AttemptArgs {
    /// Store URL, `#`, and the attempt's folder in it.
    pub url: String,
}
