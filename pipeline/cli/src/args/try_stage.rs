//! Defines the arguments of `trainyard try`.

use super::{OutputFormat, SiteArgs, WorkflowArgs};
use crate::complete;
use clap::Args;
use clap_complete::engine::ArgValueCompleter;

#[derive(Debug, Clone, Args)]
pub struct TryArgs {
    #[command(flatten)]
    pub workflow: WorkflowArgs,
    #[command(flatten)]
    pub site: SiteArgs,
    /// Stage to try, such as `rl`, or one of its instances, such as `rl[seed=1]`.
    #[arg(long, value_name = "STAGE", add = ArgValueCompleter::new(complete::stages_of_file))]
    pub stage: String,
    /// Number of episodes.
    #[arg(short = 'n', long = "episodes", value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..))]
    pub episodes: u32,
    /// Model to use instead of the stage's own: a folder, or an artifact such as `latest/sft/model`.
    #[arg(long, value_name = "PATH|ARTIFACT", add = ArgValueCompleter::new(complete::models))]
    pub model: Option<String>,
    /// Seed to use instead of the stage's own.
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}
