//! Metrics of practice, in addition to those of the trainer.

use trainyard_core::{MetricInfo, Reduce};

/// Name of the mean reward in the trainer's curves.
pub const REWARD: &str = "reward";

/// Returns the means of the steps at the end of a training.
pub fn metrics() -> Vec<MetricInfo> {
    let of = |name: &'static str, unit: &'static str, doc: &'static str| {
        MetricInfo::new(name, unit, doc).reduced_by(Reduce::LastTenth).optional()
    };
    vec![
        of(REWARD, "reward", "Mean reward of the episodes.").higher(),
        of("pass_rate", "share", "Share of episodes with a right answer.").higher(),
        of("turns", "turns per episode", "Turns that the agent took."),
        of("tool_calls", "calls per episode", "Tool calls, unreadable ones included."),
        of("tool_errors", "calls per episode", "Tool calls that failed.").lower(),
        of("infrastructure_failures", "share", "Share of episodes that the infrastructure broke.").lower(),
    ]
}
