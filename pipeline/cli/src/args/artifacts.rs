//! Arguments of `trainyard artifacts`.

use super::{Format, SiteArgs};
use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::Duration;
use trainyard_core::units::{parse_duration, parse_size};

#[derive(Debug, Clone, Args)]
pub struct ArtifactsArgs {
    #[command(subcommand)]
    pub command: ArtifactsCommand,
    #[command(flatten)]
    pub site: SiteArgs,
    #[arg(long, value_enum, default_value_t, global = true)]
    pub format: Format,
}

/// An artifact is named `RUN/STAGE/OUTPUT` (`latest/rl/model`), or `DIGEST/OUTPUT` with a stage digest or
/// its first digits, as a run prints them.
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
        /// RUN/STAGE/OUTPUT, e.g. `latest/rl/trajectories`, or DIGEST/OUTPUT.
        artifact: String,
        /// Rows of the preview.
        #[arg(long, default_value_t = 5)]
        rows: usize,
        /// Print this row in full, counted from 0; a trajectory as a conversation.
        #[arg(long, value_name = "N", conflicts_with = "rows")]
        row: Option<usize>,
    },
    /// One read-only SQL statement over a table artifact, which it calls `self`.
    Query(QueryArgs),
    /// Copy an artifact's files into a folder, or a table into a `.csv`, `.jsonl` or `.parquet` file; `--as` writes
    /// rows as another program reads them.
    Export(ExportArgs),
    /// Remove what nobody can reach any more; `--dry-run` shows what that is, by workflow and stage.
    ///
    /// Nothing goes that an unfinished run, the newest run of a schedule, a pin or a young attempt can reach.
    Gc(GcArgs),
    /// Keep an artifact, its stage's other outputs, and all that they were made of, whatever `gc` is told.
    Pin {
        /// RUN/STAGE/OUTPUT, e.g. `latest/rl/model`, or DIGEST/OUTPUT.
        artifact: String,
        /// Why, for those who find the pin.
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Take the pin of an artifact away.
    Unpin {
        /// RUN/STAGE/OUTPUT, or DIGEST/OUTPUT.
        artifact: String,
    },
    /// All pins.
    Pins,
}

// A doc comment here would replace that of the command.
#[derive(Debug, Clone, Args)]
pub struct GcArgs {
    /// Show what would go, and remove nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Nothing younger goes; at least `1h`.
    #[arg(long, value_name = "TIME", default_value = "1d", value_parser = parse_duration)]
    pub older_than: Duration,
    /// Of each stage of each workflow keep the N results that runs used last, and what they were made of; the files of
    /// the others go. Without it, all results stay.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub keep_last: Option<u32>,
    /// Remove finished runs that wrote nothing for so long, with their logs; and resume points as old as that of stages
    /// that were never finished. Without it, all runs stay.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub runs_older_than: Option<Duration>,
}

#[derive(Debug, Clone, Args)]
pub struct ExportArgs {
    /// RUN/STAGE/OUTPUT, e.g. `latest/rl/model`, or DIGEST/OUTPUT.
    pub artifact: String,
    /// A new folder, or a file that ends in .csv, .jsonl or .parquet.
    pub to: PathBuf,
    /// Columns of a table file, separated by commas. Without it .csv and .jsonl leave out those with a value per token.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// Write into a folder that is not empty.
    #[arg(long)]
    pub force: bool,
    /// Write rows as another program reads them: `trl`, `verl`, `sharegpt`, `openai` (`trainyard stages export`), or as
    /// they are: `jsonl`, `csv`. A folder gets one file and a card.
    #[arg(long = "as", value_name = "FORMAT")]
    pub format_as: Option<String>,
    /// What the rows are for; found by the artifact if left out.
    #[arg(long, value_name = "FORM", requires = "format_as",
        value_parser = ["sft", "tokens", "preference", "prompts", "steps"])]
    pub form: Option<String>,
    /// Write a card (`README.md`) with the provenance beside the files, as the Hugging Face hub shows it.
    #[arg(long)]
    pub card: bool,
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
