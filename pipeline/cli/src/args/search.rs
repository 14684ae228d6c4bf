//! Defines the arguments of `trainyard search`.

use super::{OutputFormat, SiteArgs};
use crate::complete;
use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use trainyard_views::search::{NumberRange, VerdictFilter};

#[derive(Debug, Clone, Args)]
pub struct SearchArgs {
    /// Run id, a unique prefix of it, a tag, `latest`, or `latest-success`.
    #[arg(add = ArgValueCompleter::new(complete::runs))]
    pub run: String,
    /// Text, in any case of letters, or a regular expression (`--regex`).
    #[arg(value_name = "TEXT|REGEX", allow_hyphen_values = true)]
    pub pattern: String,
    /// Read TEXT as a regular expression. It is compared in exactly this case unless it begins with `(?i)`.
    #[arg(long)]
    pub regex: bool,
    /// Compare the text in exactly this case.
    #[arg(long, conflicts_with = "regex")]
    pub case: bool,
    /// Only messages with this role: `system`, `user`, `assistant` or `tool`.
    #[arg(long, value_name = "ROLE")]
    pub role: Option<String>,
    /// Only rows with a right or wrong answer, or rows that the filter rule RULE rejected.
    #[arg(long, value_name = "right|wrong|RULE")]
    pub verdict: Option<VerdictFilter>,
    /// Only rows with a reward in this range, ends included: `..0`, `0.5..`, `0.1..0.9`, or one number.
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    pub reward: Option<NumberRange>,
    /// Only trajectories of this stage: a key such as `rl[seed=1]`, or `rl` for all of its instances.
    #[arg(long, value_name = "STAGE", add = ArgValueCompleter::new(complete::stages_of_run))]
    pub stage: Option<String>,
    /// Only rows that an update in this range used, ends included, counted from 0: `40..`, `..9`.
    #[arg(long, value_name = "RANGE")]
    pub step: Option<NumberRange>,
    /// Maximum number of hits shown; all are counted.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    #[command(flatten)]
    pub site: SiteArgs,
    /// Output format.
    #[arg(long, value_enum, default_value_t)]
    pub format: OutputFormat,
}
