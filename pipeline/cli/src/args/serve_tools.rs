//! Defines the arguments of `trainyard serve-tools`.

use clap::Args;
use std::time::Duration;
use trainyard_core::units::parse_duration;

#[derive(Debug, Clone, Args)]
pub struct ServeToolsArgs {
    /// Tools: names, or maps of options as in an environment: `{kind: python, interpreter: cpython}`.
    #[arg(required = true, value_name = "TOOL")]
    pub tools: Vec<String>,
    /// Timeout of one call.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub time: Duration,
    /// Maximum number of bytes returned by one call.
    #[arg(long, value_name = "BYTES", default_value_t = 65_536)]
    pub output_bytes: u64,
}
