//! Defines the arguments of `trainyard conformance`.

use super::{OutputFormat, SiteArgs};
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Clone, Args)]
pub struct ConformanceArgs {
    #[command(subcommand)]
    pub command: ConformanceCommand,
    #[command(flatten)]
    pub site: SiteArgs,
    /// Output format.
    #[arg(long, value_enum, default_value_t, global = true)]
    pub format: OutputFormat,
}

#[derive(Debug, Clone, Subcommand)]
pub enum ConformanceCommand {
    /// Test an environment with the script of an agent that solves a problem in it.
    Environment {
        /// YAML file: `environment` as in a stage, `problem: {prompt, answer, verifier}`, `turns`, and an
        /// optional `disturbance`.
        file: PathBuf,
    },
}
