//! Defines the arguments of `trainyard artifacts`.

use super::{OutputFormat, SiteArgs};
use crate::complete;
use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCompleter;
use std::path::PathBuf;
use std::time::Duration;
use trainyard_core::units::{parse_duration, parse_size};
use trainyard_views::tokens::TokenValue;

#[derive(Debug, Clone, Args)]
pub struct ArtifactsArgs {
    #[command(subcommand)]
    pub command: ArtifactsCommand,
    #[command(flatten)]
    pub site: SiteArgs,
    /// Output format.
    #[arg(long, value_enum, default_value_t, global = true)]
    pub format: OutputFormat,
}

/// An artifact is named `RUN/STAGE/OUTPUT` (`latest/rl/model`), or `DIGEST/OUTPUT` with a stage digest or
/// its first digits, as a run prints them.
#[derive(Debug, Clone, Subcommand)]
pub enum ArtifactsCommand {
    /// List all artifacts of a run.
    List {
        /// Run id, a unique prefix of it, a tag, `latest`, or `latest-success`.
        #[arg(default_value = "latest", add = ArgValueCompleter::new(complete::runs))]
        run: String,
    },
    /// Show an artifact: first rows and columns, parts of a model, tables and curves of a report, provenance, files.
    Show(ShowArgs),
    /// Show the answers of several models to one problem next to each other, or the problems that one model got right
    /// and another wrong.
    #[command(after_help = "Examples:
  trainyard artifacts compare latest/evaluate/results --flips sft rl
  trainyard artifacts compare latest/evaluate/results --problem word-17
  trainyard artifacts compare RUN1/evaluate/results RUN2/evaluate/results --problem 0")]
    Compare(CompareArgs),
    /// Show what differs between two artifacts: config, inputs and metrics of the stages, and rows, tensors or files.
    #[command(after_help = "Examples:
  trainyard artifacts diff RUN1/filter/kept latest/filter/kept
  trainyard artifacts diff latest/sft/model latest/rl/model
  trainyard artifacts diff RUN1/evaluate/results RUN2/evaluate/results --rows 20")]
    Diff(ArtifactDiffArgs),
    /// Run a read-only SQL statement over a table artifact, which the statement names `self`, and over other artifacts
    /// that it names.
    #[command(after_help = "Examples:
  trainyard artifacts query latest/rl/trajectories \"select level, avg(reward) from self group by level\"
  trainyard artifacts query latest/evaluate/results \\
    \"select p.answer, count(*) from self s join latest/test/problems p on p.id = s.problem_id group by 1\"

Other artifacts follow FROM or JOIN, or are in braces: {latest/test/problems}.")]
    Query(QueryArgs),
    /// Show what an artifact, or one of its rows, was made from, or what was made from the row.
    #[command(after_help = "Examples:
  trainyard artifacts lineage latest/evaluate/results --row 17
  trainyard artifacts lineage latest/data/problems --id word-17 --forward
  trainyard artifacts lineage latest/rl/model")]
    Lineage(LineageArgs),
    /// Copy an artifact's files into a folder, or a table into a `.csv`, `.jsonl` or `.parquet` file; `--as` converts
    /// rows to the format of another program.
    Export(ExportArgs),
    /// Remove unreachable objects; `--dry-run` shows them by workflow and stage.
    ///
    /// Objects reachable from an unfinished run, the newest run of a schedule, a pin or a recent attempt are kept.
    Gc(GcArgs),
    /// Pin an artifact: `gc` keeps it, the other outputs of its stage, and all their inputs.
    Pin {
        /// RUN/STAGE/OUTPUT, e.g. `latest/rl/model`, or DIGEST/OUTPUT.
        #[arg(add = ArgValueCompleter::new(complete::artifacts))]
        artifact: String,
        /// Reason for the pin, shown in lists.
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Remove the pin of an artifact.
    Unpin {
        /// Artifact: `RUN/STAGE/OUTPUT` or `DIGEST/OUTPUT`.
        #[arg(add = ArgValueCompleter::new(complete::artifacts))]
        artifact: String,
    },
    /// List all pins.
    Pins,
    /// Add a note to an artifact or to one of its rows.
    #[command(after_help = "Examples:
  trainyard artifacts note latest/rl/model \"used in table 2\"
  trainyard artifacts note latest/evaluate/trajectories --row 17 \"the verifier is wrong here\"")]
    Note(NoteArgs),
    /// List the notes about an artifact and its rows, or all notes of the store.
    Notes {
        /// RUN/STAGE/OUTPUT, e.g. `latest/rl/model`, or DIGEST/OUTPUT; default: all artifacts.
        #[arg(add = ArgValueCompleter::new(complete::artifacts))]
        artifact: Option<String>,
    },
    /// Remove a note.
    Unnote {
        /// RUN/STAGE/OUTPUT, e.g. `latest/rl/model`, or DIGEST/OUTPUT.
        #[arg(add = ArgValueCompleter::new(complete::artifacts))]
        artifact: String,
        /// Number of the note, as `artifacts notes` shows it.
        number: u64,
        /// Author of the removal; default: `$USER`.
        #[arg(long, value_name = "NAME")]
        by: Option<String>,
    },
}

// Doc comments of these structs would replace those of the commands.
#[derive(Debug, Clone, Args)]
pub struct ShowArgs {
    /// RUN/STAGE/OUTPUT, e.g. `latest/rl/trajectories`, or DIGEST/OUTPUT.
    #[arg(add = ArgValueCompleter::new(complete::artifacts))]
    pub artifact: String,
    /// Number of rows in the preview, or of rows that `--where` prints.
    #[arg(long, default_value_t = 5)]
    pub rows: usize,
    /// List the metrics and comparisons of the stage too.
    #[arg(long, conflicts_with_all = ["row", "id", "condition"])]
    pub metrics: bool,
    /// Print row N in full, counted from 0; a trajectory is printed as a conversation.
    #[arg(long, value_name = "N", conflicts_with_all = ["rows", "id", "condition"])]
    pub row: Option<usize>,
    /// Print the row with this id in full.
    #[arg(long, value_name = "ID", conflicts_with_all = ["rows", "condition"])]
    pub id: Option<String>,
    /// Print the rows in full for which this SQL expression is true, e.g. `reward < 0.5 and turns > 3`.
    #[arg(long = "where", value_name = "EXPRESSION")]
    pub condition: Option<String>,
    /// Show the tokens of the row with this value each; default: the log-probability, or else the loss mask.
    #[arg(long, value_name = "VALUE", num_args = 0..=1, conflicts_with_all = ["condition", "metrics", "rows"],
        value_parser = TokenValue::NAMES)]
    pub tokens: Option<Option<String>>,
}

#[derive(Debug, Clone, Args)]
pub struct NoteArgs {
    /// RUN/STAGE/OUTPUT, e.g. `latest/rl/model`, or DIGEST/OUTPUT.
    #[arg(add = ArgValueCompleter::new(complete::artifacts))]
    pub artifact: String,
    /// Text of the note, at most 4 KiB.
    pub text: String,
    /// Attach the note to row N, counted from 0.
    #[arg(long, value_name = "N", conflicts_with = "id")]
    pub row: Option<usize>,
    /// Attach the note to the row with this id.
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Author of the note; default: `$USER`.
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
}

#[derive(Debug, Clone, Args)]
pub struct CompareArgs {
    /// Results or trajectories: those of `evaluate` have several models; other artifacts are one model each.
    #[arg(required = true, value_name = "ARTIFACT", add = ArgValueCompleter::new(complete::artifacts))]
    pub artifacts: Vec<String>,
    /// Problem: its id, or its position counted from 0.
    #[arg(long, value_name = "ID|POSITION", required_unless_present = "flips", conflicts_with = "flips")]
    pub problem: Option<String>,
    /// List the problems that model A got right and B wrong, then the opposite.
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    pub flips: Option<Vec<String>>,
    /// Number of the compared sample; default: the greedy one, or else the first.
    #[arg(long, value_name = "N")]
    pub sample: Option<i64>,
}

#[derive(Debug, Clone, Args)]
pub struct ArtifactDiffArgs {
    /// First artifact: RUN/STAGE/OUTPUT, e.g. `latest/sft/model`, or DIGEST/OUTPUT.
    #[arg(value_name = "A", add = ArgValueCompleter::new(complete::artifacts))]
    pub a: String,
    /// Second artifact.
    #[arg(value_name = "B", add = ArgValueCompleter::new(complete::artifacts))]
    pub b: String,
    /// Number of rows shown of those that changed, and of those that only one table has.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub rows: usize,
}

#[derive(Debug, Clone, Args)]
pub struct LineageArgs {
    /// RUN/STAGE/OUTPUT, e.g. `latest/evaluate/results`, or DIGEST/OUTPUT.
    #[arg(add = ArgValueCompleter::new(complete::artifacts))]
    pub artifact: String,
    /// Walk from row N, counted from 0, instead of the whole artifact.
    #[arg(long, value_name = "N")]
    pub row: Option<usize>,
    /// Walk from the row with this id.
    #[arg(long, value_name = "ID", conflicts_with = "row")]
    pub id: Option<String>,
    /// Show the rows of later stages of the run that were made from the row.
    #[arg(long)]
    pub forward: bool,
}

#[derive(Debug, Clone, Args)]
pub struct GcArgs {
    /// Show the objects without removing them.
    #[arg(long)]
    pub dry_run: bool,
    /// Minimum age of removed objects; at least `1h`.
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = parse_duration)]
    pub older_than: Duration,
    /// Keep only the N most recently used results of each stage of each workflow, with their inputs. By default, all
    /// results are kept.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_last: Option<u32>,
    /// Remove finished runs that were not written to for this long, with their logs, and resume points of this age from
    /// stages that never finished. By default, all runs are kept.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub runs_older_than: Option<Duration>,
}

#[derive(Debug, Clone, Args)]
pub struct ExportArgs {
    /// RUN/STAGE/OUTPUT, e.g. `latest/rl/model`, or DIGEST/OUTPUT.
    #[arg(add = ArgValueCompleter::new(complete::artifacts))]
    pub artifact: String,
    /// Destination: a new folder, or a file that ends in .csv, .jsonl or .parquet.
    pub to: PathBuf,
    /// Columns of a table file, separated by commas; default: all, but .csv and .jsonl omit those
    /// with a value per token.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// Write all text into a .csv file unchanged, also text that a spreadsheet would run as a formula (`=1+2`); by
    /// default `'` comes first.
    #[arg(long)]
    pub keep_formulas: bool,
    /// Write into a folder that is not empty.
    #[arg(long)]
    pub force: bool,
    /// Format of the rows: that of another program (`trl`, `verl`, `sharegpt`, `openai`, `inspect`, `atif`; see
    /// `trainyard stages export`), or unchanged (`jsonl`, `csv`). A folder gets one file and a card.
    #[arg(long = "as", value_name = "FORMAT")]
    pub format_as: Option<String>,
    /// Purpose of the rows; by default derived from the artifact.
    #[arg(long, value_name = "FORM", requires = "format_as",
        value_parser = ["sft", "tokens", "preference", "prompts", "steps"])]
    pub form: Option<String>,
    /// Write a card (`README.md`) with the provenance into the same folder, in the format of the Hugging Face hub.
    #[arg(long)]
    pub card: bool,
}

#[derive(Debug, Clone, Args)]
pub struct QueryArgs {
    /// Artifact, and SQL statement over it.
    #[arg(required = true, num_args = 2, value_names = ["ARTIFACT", "SQL"],
        add = ArgValueCompleter::new(complete::artifacts))]
    pub words: Vec<String>,
    /// Maximum number of rows returned.
    #[arg(long, default_value_t = 1000)]
    pub limit: usize,
    /// Timeout of the statement, e.g. `5m`.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = parse_duration)]
    pub timeout: Duration,
    /// Memory limit of the statement, e.g. `8GiB`; default: half of this machine's memory.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub memory: Option<u64>,
}
