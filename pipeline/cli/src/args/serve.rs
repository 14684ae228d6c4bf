//! Defines the arguments of `trainyard serve` and `trainyard schedules`.

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
    /// Address and port of the HTTP API and the pages.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8675")]
    pub bind: SocketAddr,
    /// Address that the browser shows, if a proxy is before the server, such as JupyterHub.
    #[arg(long, value_name = "URL")]
    pub public_url: Option<String>,
    /// File of API tokens, one per line: role (`viewer` or `operator`), name, token. Without it, only this machine may
    /// send requests, with a random token in a file below `$TRAINYARD_HOME/tokens`.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Accept requests of this machine without a token, from every user and program on it.
    #[arg(long, conflicts_with = "token_file")]
    pub no_token: bool,
    /// Effect of SIGTERM and Ctrl-C on active runs: `leave` them running for the next daemon, or `stop` them.
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
    /// Output format.
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
    /// Pause a schedule: it starts no more runs, and active runs continue.
    Pause {
        /// Name of the workflow.
        name: String,
        /// Reason, shown with the schedule.
        #[arg(long, value_name = "TEXT")]
        why: Option<String>,
    },
    /// Resume a paused schedule. Ticks that passed meanwhile are skipped.
    Resume {
        /// Name of the workflow.
        name: String,
    },
    /// Start a run now, independent of the clock.
    Trigger {
        /// Name of the workflow.
        name: String,
    },
    /// Run the ticks of a range that had no run yet, or cancel such a backfill.
    Backfill(BackfillArgs),
}

#[derive(Debug, Clone, Args)]
pub struct BackfillArgs {
    /// Name of the workflow.
    pub name: String,
    /// First tick: a day in the schedule's zone (2026-11-01), or an instant (2026-11-01T02:00:00Z).
    #[arg(long, value_name = "TIME", required_unless_present = "cancel")]
    pub from: Option<String>,
    /// Last tick, inclusive: a day in the schedule's zone, or an instant.
    #[arg(long, value_name = "TIME", required_unless_present = "cancel")]
    pub to: Option<String>,
    /// Maximum number of concurrent runs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub concurrency: u32,
    /// Also run ticks that had a run.
    #[arg(long)]
    pub again: bool,
    /// Cancel the backfill of this id: it starts no more runs.
    #[arg(long, value_name = "ID", conflicts_with_all = ["from", "to", "again"])]
    pub cancel: Option<String>,
}
