//! Defines the arguments of `trainyard top`.

use super::SiteArgs;
use crate::complete;
use clap::Args;
use clap_complete::engine::ArgValueCompleter;

#[derive(Debug, Clone, Args)]
pub struct TopArgs {
    /// Run id, a unique prefix of it, a tag, `latest`, or `latest-success`; default: all runs.
    #[arg(add = ArgValueCompleter::new(complete::runs))]
    pub run: Option<String>,
    #[command(flatten)]
    pub site: SiteArgs,
}
