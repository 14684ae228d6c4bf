//! Defines the arguments of `trainyard runs`.

use super::{OutputFormat, SiteArgs};
use crate::complete;
use clap::{Args, Subcommand};
use clap_complete::engine::ArgValueCompleter;

#[derive(Debug, Clone, Args)]
pub struct RunsArgs {
    #[command(subcommand)]
    pub command: Option<RunsCommand>,
    #[command(flatten)]
    pub site: SiteArgs,
    /// Output format.
    #[arg(long, value_enum, default_value_t, global = true)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Subcommand)]
pub enum RunsCommand {
    /// List all runs of the store, newest first.
    List {
        /// Maximum number of runs shown.
        #[arg(long, default_value_t = 20)]
        limit: usize,
        /// Only runs with this tag.
        #[arg(long, value_name = "NAME")]
        tag: Option<String>,
    },
    /// Show one run: every stage, its state, time, attempts and metrics.
    Show {
        /// Run id, a unique prefix of it, a tag, `latest`, or `latest-success`.
        #[arg(add = ArgValueCompleter::new(complete::runs))]
        run: String,
        /// Print the run again whenever it changes, until it ends.
        #[arg(long)]
        watch: bool,
        /// Show the learning curves of this stage instead: number of points, and first, last, minimum and maximum
        /// value. `--format json` prints all points.
        #[arg(long, value_name = "STAGE", conflicts_with = "watch",
            add = ArgValueCompleter::new(complete::stages_of_run))]
        curves: Option<String>,
    },
    /// Show what differs between two runs: parameters, stages with the reasons, and metrics.
    #[command(after_help = "Example:
  trainyard runs diff latest-success latest")]
    Diff {
        /// First run: id, a unique prefix of it, a tag, `latest`, or `latest-success`.
        #[arg(value_name = "A", add = ArgValueCompleter::new(complete::runs))]
        a: String,
        /// Second run.
        #[arg(value_name = "B", add = ArgValueCompleter::new(complete::runs))]
        b: String,
    },
    /// Stop a run.
    Cancel {
        /// Run id, a unique prefix of it, a tag, `latest`, or `latest-success`.
        #[arg(add = ArgValueCompleter::new(complete::runs))]
        run: String,
    },
    /// Give a run tags: short names that commands accept for the run while no other run has them.
    Tag(TagArgs),
    /// Take tags from a run.
    Untag(TagArgs),
    /// Resume an interrupted run.
    Resume {
        /// Run id, a unique prefix of it, a tag, `latest`, or `latest-success`.
        #[arg(add = ArgValueCompleter::new(complete::runs))]
        run: String,
        /// Resume even if its writer may still be alive.
        #[arg(long)]
        take_over: bool,
    },
    /// Discard the resume points of a stage, so that its next attempt starts from the beginning. Required if this
    /// version cannot read them.
    Afresh {
        /// Run id, a unique prefix of it, a tag, `latest`, or `latest-success`.
        #[arg(add = ArgValueCompleter::new(complete::runs))]
        run: String,
        /// Stage key, e.g. `rl` or `rl[seed=1]`.
        #[arg(add = ArgValueCompleter::new(complete::stages_of_run))]
        stage: String,
    },
}

// Doc comments of these structs would replace those of the commands.
#[derive(Debug, Clone, Args)]
pub struct TagArgs {
    /// Run id, a unique prefix of it, a tag, `latest`, or `latest-success`.
    #[arg(add = ArgValueCompleter::new(complete::runs))]
    pub run: String,
    /// Tags: letters, digits, `.`, `_` and `-`, at most 64 characters each.
    #[arg(required = true, value_name = "NAME")]
    pub names: Vec<String>,
    /// Author of the change; default: `$USER`.
    #[arg(long, value_name = "NAME")]
    pub by: Option<String>,
}
