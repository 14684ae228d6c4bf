//! Defines the command line arguments. The doc comments are the help texts. Each command has a file in `commands/`.

mod artifacts;
mod conformance;
mod init;
mod pages;
mod recipes;
mod report;
mod run;
mod runs;
mod search;
mod serve;
mod serve_model;
mod serve_tools;
mod site;
mod top;
mod try_stage;

pub use artifacts::{
    ArtifactDiffArgs, ArtifactsArgs, ArtifactsCommand, CompareArgs, ExportArgs, GcArgs, LineageArgs, NoteArgs,
    QueryArgs, ShowArgs,
};
pub use conformance::{ConformanceArgs, ConformanceCommand};
pub use init::{AdapterPackage, InitArgs};
pub use pages::{PagesArgs, ServePagesArgs};
pub use recipes::{RecipesArgs, RecipesCommand, SeedArgs};
pub use report::ReportArgs;
pub use run::RunArgs;
pub use runs::{RunsArgs, RunsCommand, TagArgs};
pub use search::SearchArgs;
pub use serve::{BackfillArgs, OnStop, SchedulesArgs, SchedulesCommand, ServeArgs};
pub use serve_model::ServeModelArgs;
pub use serve_tools::ServeToolsArgs;
pub use site::{LeadingSiteArgs, SiteArgs};
pub use top::TopArgs;
pub use try_stage::TryArgs;

use crate::complete;
use clap::{Args, Parser, Subcommand, ValueEnum};
use clap_complete::engine::ArgValueCompleter;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Version, commit and features, written by `build.rs`. Only `--version` prints the text: the commit must not enter an
/// artifact.
const VERSION: &str = env!("TRAINYARD_VERSION");

/// Turn a base language model into a tool-using agent with one YAML file.
#[derive(Debug, Parser)]
#[command(name = "trainyard", version = VERSION, about, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "Examples:
  trainyard init agent                      write a first workflow into the folder agent
  trainyard check agent/workflow.yaml       report every mistake at once
  trainyard run agent/workflow.yaml         run it; unchanged stages come from the cache
  trainyard artifacts show latest/rl/trajectories --row 0
  trainyard stages rl                       show the options, ports and parts of a stage kind")]
pub struct Cli {
    #[command(flatten)]
    pub log: LogArgs,
    #[command(flatten)]
    pub site: LeadingSiteArgs,
    #[command(subcommand)]
    pub command: CliCommand,
}

/// Diagnostics on stderr.
#[derive(Debug, Clone, Default, Args)]
pub struct LogArgs {
    /// Filter for the diagnostics on stderr: a level, or levels of modules, such as `info,trainyard_store=debug`.
    /// Attempts inherit it. [env: TRAINYARD_LOG] [default: warn]
    #[arg(long, value_name = "FILTER", global = true)]
    pub log: Option<String>,
    /// Format of diagnostics on stderr. [env: TRAINYARD_LOG_FORMAT] [default: text]
    #[arg(long, value_name = "FORMAT", value_enum, global = true)]
    pub log_format: Option<LogFormat>,
}

/// Format of the diagnostics on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// Run a workflow: unchanged stages come from the cache, and an interrupted run resumes.
    #[command(after_help = "Examples:
  trainyard run agent.yaml -p steps=400 -p seed=2
  trainyard run agent.yaml --until sft --store s3://bucket/agent
  trainyard run agent.yaml --rerun rl")]
    Run(RunArgs),
    /// Check workflow and site files, and report every mistake at once.
    #[command(after_help = "Example:
  trainyard check *.yaml --format json")]
    Check(CheckArgs),
    /// Show which stages would run, which would come from the cache, and why.
    #[command(after_help = "Example:
  trainyard plan agent.yaml -p steps=400")]
    Plan(PlanArgs),
    /// Play a few episodes of a stage with its environment, tools and rewards, without training.
    #[command(after_help = "Examples:
  trainyard try agent.yaml --stage rl -n 3
  trainyard try agent.yaml --stage rl -n 3 --model latest/sft/model")]
    Try(TryArgs),
    /// List, show, cancel and resume runs.
    Runs(RunsArgs),
    /// Watch runs on a terminal: stages, progress, curves and logs.
    #[command(after_help = "Examples:
  trainyard top
  trainyard top latest

The key ? lists the keys. `trainyard runs show --watch RUN` prints a run to a pipe.")]
    Top(TopArgs),
    /// Serve pages for a browser: runs, rollouts, data, lineage. `run` and `serve` serve them, too.
    #[command(after_help = "Examples:
  trainyard pages
  trainyard pages --store s3://bucket/prefix --pages-bind 127.0.0.1:9000

The printed address contains a token. From elsewhere: `ssh -L 7878:localhost:7878 HOST`, or a proxy
and `--public-url`.")]
    Pages(ServePagesArgs),
    /// Write the pages of a run as files that open from a disk or a bucket.
    #[command(after_help = "Examples:
  trainyard report latest --site report
  trainyard report latest --site report --rollouts 50 && aws s3 sync report s3://bucket/report

The folder has the run, its stages and artifacts, and up to 500 rollouts of each artifact. Open its
index.html in a browser. A site file goes before the command: `trainyard --site FILE report ...`.")]
    Report(ReportArgs),
    /// Print the logs of a run's stages.
    Logs(LogsArgs),
    /// Explain why a stage is in its current state.
    #[command(after_help = "Example:
  trainyard explain latest rl")]
    Explain(ExplainArgs),
    /// List, show, compare, query, export and pin artifacts, and collect garbage.
    #[command(after_help = "Examples:
  trainyard artifacts show latest/rl/trajectories --row 0
  trainyard artifacts show latest/rl/trajectories --where \"reward < 0.5 and turns > 3\"
  trainyard artifacts compare latest/evaluate/results --flips sft rl
  trainyard artifacts query latest/rl/trajectories \"select level, avg(reward) from self group by level\"
  trainyard artifacts export latest/rl/model model
  trainyard artifacts export latest/rl/trajectories rollouts.jsonl --columns id,messages,reward
  trainyard artifacts export latest/demos/demonstrations demos --as trl
  trainyard artifacts pin latest/rl/model --note \"in the paper\"
  trainyard artifacts gc --keep-last 3 --dry-run

An artifact is named RUN/STAGE/OUTPUT, where RUN may be a tag, `latest` or `latest-success` (the
newest run that succeeded), or DIGEST/OUTPUT with a stage digest or its first digits, as a run
prints them.")]
    Artifacts(ArtifactsArgs),
    /// Search the messages of all trajectories of a run.
    ///
    /// The first search of an artifact builds an index of its messages, which the store keeps.
    #[command(after_help = "Examples:
  trainyard search latest \"I am not sure\" --role assistant --verdict wrong
  trainyard search latest 'boxed\\{[0-9]+\\}' --regex --stage rl --step 40.. --reward ..0")]
    Search(SearchArgs),
    /// Run scheduled workflows, and serve the HTTP API.
    #[command(after_help = "Examples:
  trainyard serve --workflows workflows
  trainyard serve --workflows workflows --store s3://bucket/agent --bind 0.0.0.0:8675 --token-file tokens")]
    Serve(ServeArgs),
    /// Serve a model over HTTP, with the APIs of OpenAI (chat completions, completions, responses) and Anthropic
    /// (messages).
    #[command(after_help = "Examples:
  trainyard serve-model latest/rl/model
  trainyard serve-model model --name agent --bind 0.0.0.0:8000 --key-file key

Clients then use http://127.0.0.1:8000/v1 (OpenAI) or http://127.0.0.1:8000 (Anthropic) as their base URL.")]
    ServeModel(ServeModelArgs),
    /// Serve tools over the Model Context Protocol (MCP), on standard input and output.
    #[command(after_help = "Examples:
  trainyard serve-tools calculator python
  trainyard serve-tools '{kind: process, command: [python3, my_tools.py]}'")]
    ServeTools(ServeToolsArgs),
    /// List, show, pause, resume, trigger and backfill schedules.
    #[command(after_help = "Examples:
  trainyard schedules
  trainyard schedules pause nightly --why \"the cluster is down\"
  trainyard schedules backfill nightly --from 2026-11-01 --to 2026-11-07 --concurrency 2")]
    Schedules(SchedulesArgs),
    /// Show the documentation of stage kinds, parts and executors: options, ports, formulas, sources.
    #[command(after_help = "Examples:
  trainyard stages
  trainyard stages sft
  trainyard stages losses
  trainyard stages losses/clip")]
    Stages(StagesArgs),
    /// List and run the recipes of published systems, and document their effects.
    Recipes(RecipesArgs),
    /// Print the JSON Schema of workflow files for editors.
    Schema(SchemaArgs),
    /// Write a first workflow file, a site file and the JSON Schema into a folder.
    Init(InitArgs),
    /// Check this machine, the site file and the store.
    Doctor(DoctorArgs),
    /// Test a custom environment against the rules for all environments.
    #[command(after_help = "Example:
  trainyard conformance environment shop-script.yaml")]
    Conformance(ConformanceArgs),
    /// Compare the RL algorithms of this build with reference values.
    Parity(ParityArgs),
    /// Print the completion script of a shell. Runs, stages, artifacts, stage kinds and recipes are completed, too.
    #[command(after_help = "Example:
  trainyard completions bash > ~/.local/share/bash-completion/completions/trainyard")]
    Completions(CompletionsArgs),
    /// Run one attempt of a stage (started by executors).
    #[command(hide = true)]
    Attempt(AttemptArgs),
    /// Run one statement of `artifacts query` (started by that command).
    #[command(hide = true)]
    QueryWorker,
    /// Serve tool calls on standard input and output (started by environments).
    #[command(hide = true)]
    ToolWorker {
        /// Start parameters of a sandboxed interpreter (set by a worker).
        parameters: Option<String>,
    },
}

/// Format of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
pub enum OutputFormat {
    #[default]
    Text,
    Json,
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
    /// Parameter `name=value`, or `@file` with a YAML map of parameters. May be repeated.
    #[arg(short = 'p', long = "param", value_name = "NAME=VALUE|@FILE")]
    pub params: Vec<String>,
}

#[derive(Debug, Clone, Args)]
pub struct CheckArgs {
    /// Workflow files and site files.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub params: ParamArgs,
    /// Also ask the models at endpoints that the files name whether they answer.
    #[arg(long)]
    pub connect: bool,
    #[command(flatten)]
    pub site: SiteArgs,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
pub struct PlanArgs {
    #[command(flatten)]
    pub workflow: WorkflowArgs,
    /// Print the file with its parents (`extends`) merged in, instead of the plan.
    #[arg(long)]
    pub show_file: bool,
    #[command(flatten)]
    pub site: SiteArgs,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: PlanFormat,
}

/// Format of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum PlanFormat {
    #[default]
    Text,
    Json,
    /// A Mermaid flowchart.
    Mermaid,
}

#[derive(Debug, Clone, Args)]
pub struct LogsArgs {
    /// Run id, a unique prefix of it, a tag, `latest`, or `latest-success`.
    #[arg(add = ArgValueCompleter::new(complete::runs))]
    pub run: String,
    /// Print only the logs of this stage.
    #[arg(add = ArgValueCompleter::new(complete::stages_of_run))]
    pub stage: Option<String>,
    #[command(flatten)]
    pub site: SiteArgs,
    /// Print the raw text with colors and other terminal codes. By default, colors are removed and other codes escaped.
    #[arg(long)]
    pub raw: bool,
    /// Output format; `json` prints one object per record: stage, attempt, at, level, text.
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
pub struct ExplainArgs {
    /// Run id, a unique prefix of it, a tag, `latest`, or `latest-success`.
    #[arg(add = ArgValueCompleter::new(complete::runs))]
    pub run: String,
    /// Stage key, e.g. `rl` or `rl[seed=1]`.
    #[arg(add = ArgValueCompleter::new(complete::stages_of_run))]
    pub stage: String,
    #[command(flatten)]
    pub site: SiteArgs,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
pub struct StagesArgs {
    /// Stage kind (`sft`), family (`losses`), part (`losses/clip`, `grpo`) or executor; default: list all of them.
    #[arg(add = ArgValueCompleter::new(complete::kinds))]
    pub kind: Option<String>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
pub struct SchemaArgs {
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: SchemaFormat,
}

/// Format of a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum SchemaFormat {
    #[default]
    Json,
}

#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    #[command(flatten)]
    pub site: SiteArgs,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
pub struct ParityArgs {
    /// JSON file of reference values: `{cases: [{kind, name, inputs, config, expected}]}`.
    pub file: PathBuf,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Args)]
pub struct CompletionsArgs {
    /// Shell of the script.
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
}

#[derive(Debug, Clone, Args)]
pub struct AttemptArgs {
    /// Store URL, `#`, and the attempt's folder in it.
    pub url: String,
}
