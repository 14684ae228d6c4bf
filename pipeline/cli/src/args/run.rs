//! Defines the options of `trainyard run`.

use super::{OutputFormat, PagesArgs, SiteArgs, WorkflowArgs};
use crate::complete;
use clap::Args;
use clap_complete::engine::ArgValueCompleter;

/// Options of `trainyard run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub workflow: WorkflowArgs,
    #[command(flatten)]
    pub site: SiteArgs,
    /// Run this stage and its dependencies, but no later stage. May be repeated.
    #[arg(long, value_name = "STAGE", add = ArgValueCompleter::new(complete::stages_of_file))]
    pub until: Vec<String>,
    /// Run only this stage; its inputs must be in the cache. May be repeated.
    #[arg(long, value_name = "STAGE", add = ArgValueCompleter::new(complete::stages_of_file))]
    pub only: Vec<String>,
    /// Run this stage again even if it is in the cache. May be repeated.
    #[arg(long, value_name = "STAGE", add = ArgValueCompleter::new(complete::stages_of_file))]
    pub rerun: Vec<String>,
    /// Stop at the first failed stage.
    #[arg(long)]
    pub fail_fast: bool,
    /// Start a new run even if an interrupted one of the same plan exists.
    #[arg(long)]
    pub new: bool,
    /// Take over an interrupted run even if its writer may still be alive.
    #[arg(long)]
    pub take_over: bool,
    /// Scheduled time of the run, in RFC 3339: the value of the parameter `tick`, if the file declares one.
    #[arg(long, value_name = "TIME")]
    pub tick: Option<String>,
    /// Start or resume the run of this id (set by `serve`).
    #[arg(long, value_name = "ID", hide = true)]
    pub run_id: Option<String>,
    /// Read the file, its parents and embedded files from this object of the store (set by `serve`).
    #[arg(long, value_name = "PATH", hide = true)]
    pub texts: Option<String>,
    /// Serve no pages for a browser while the run lasts.
    #[arg(long)]
    pub no_pages: bool,
    #[command(flatten)]
    pub pages: PagesArgs,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}
