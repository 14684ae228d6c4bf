//! The arguments of `serve` and `schedules`.

use super::{Format, SiteArgs};
use clap::{Args, Subcommand, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Folder whose workflow files with a `schedule` are run. Files that change are taken up within seconds.
    #[arg(long, value_name = "FOLDER")]
    pub workflows: PathBuf,
    #[command(flatten)]
    pub site: SiteArgs,
    /// Address of the HTTP API, with its port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8675")]
    pub bind: SocketAddr,
    /// File of tokens: lines of a role (viewer, operator), a name and a token. Without one, only this machine may ask.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// What SIGTERM and Ctrl-C do to the runs that are going: `leave` them, to be found again later, or `stop` them.
    #[arg(long, value_enum, default_value_t)]
    pub on_stop: OnStop,
}

/// What becomes of runs when the daemon stops.
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
    pub format: Format,
}

#[derive(Debug, Clone, Subcommand)]
pub enum SchedulesCommand {
    /// All schedules: next tick, last run, state.
    List,
    /// One schedule: its ticks that wait, its last ones, its backfills.
    Show {
        /// Name of the workflow.
        name: String,
    },
    /// Let a schedule start no runs; those that are going go on.
    Pause {
        /// Name of the workflow.
        name: String,
        /// Shown to whoever looks at it.
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
    },
    /// Let a schedule start runs again. Ticks that passed meanwhile are not made up for.
    Resume {
        /// Name of the workflow.
        name: String,
    },
    /// Start a run now, whatever the clock says.
    Trigger {
        /// Name of the workflow.
        name: String,
    },
    /// Run the ticks of a range that had no run yet, or stop doing so.
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
    /// Runs at the same time.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub concurrency: u32,
    /// Run ticks again that had a run.
    #[arg(long)]
    pub again: bool,
    /// Let this backfill start no more runs.
    #[arg(long, value_name = "ID", conflicts_with_all = ["from", "to", "again"])]
    pub cancel: Option<String>,
}
