//! The arguments of `serve` and `schedules`.

use super::{OutputFormat, SiteArgs};
use clap::{Args, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Folder of workflow files; those with a `schedule` are run. Changed files are reloaded within seconds.
    #[arg(long, value_name = "FOLDER")]
    pub workflows: PathBuf,
    #[command(flatten)]
    pub site: SiteArgs,
    /// Address of the HTTP API, with its port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8675")]
    pub bind: SocketAddr,
    /// File of tokens: lines of a role (viewer, operator), a name and a token. Without it, only this machine may send
    /// requests.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Effect of SIGTERM and Ctrl-C on active runs: `leave` them running, to be found again later, or `stop` them.
    #[arg(long, value_enum, default_value_t)]
    pub on_stop: OnStop,
}

/// Effect of a stop of the daemon on active runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum OnStop {
    #[default]
    Leave,
    Stop,
}

#[derive(Debug, Clone, Args)]
pub struct SchedulesArgs {
    #[command(subcommand)]
    pub command: Option<SchedulesCommand>,
    #[command(flatten)]
    pub site: SiteArgs,
    #[arg(long, value_enum, default_value_t, global = true)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Subcommand)]
pub enum SchedulesCommand {
    /// List all schedules: next tick, last run, state.
    List,
    /// Show one schedule: pending ticks, recent ticks, backfills.
    Show {
        /// Name of the workflow.
        name: String,
    },
    /// Start no more runs of a schedule; active runs continue.
    Pause {
        /// Name of the workflow.
        name: String,
        /// Reason, shown with the schedule.
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
    },
    /// Start runs of a schedule again. Ticks that passed meanwhile are not caught up.
    Resume {
        /// Name of the workflow.
        name: String,
    },
    /// Start a run now, independent of the clock.
    Trigger {
        /// Name of the workflow.
        name: String,
    },
    /// Run the ticks of a range that had no run yet, or stop such a backfill.
    Backfill(BackfillArgs),
}

#[derive(Debug, Clone, Args)]
pub struct BackfillArgs {
    /// Name of the workflow.
    pub name: String,
    /// First tick: a day in the schedule's zone (2026-11-01), or an instant (2026-11-01T02:00:00Z).
    #[arg(long, value_name = "TIME", required_unless_present = "cancel")]
    pub from: Option<String>,
    /// Last tick: a day, which counts as a whole, or an instant.
    #[arg(long, value_name = "TIME", required_unless_present = "cancel")]
    pub to: Option<String>,
    /// Number of runs at the same time.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub concurrency: u32,
    /// Also run ticks that had a run.
    #[arg(long)]
    pub again: bool,
    /// Start no more runs of this backfill.
    #[arg(long, value_name = "ID", conflicts_with_all = ["from", "to", "again"])]
    pub cancel: Option<String>,
}
