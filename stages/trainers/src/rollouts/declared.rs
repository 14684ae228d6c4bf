//! Declares the metrics of rollouts, in addition to those of the trainer.

use trainyard_core::{MetricInfo, Reduce};

/// Name of the mean reward in the trainer's curves.
pub const REWARD: &str = "reward";

/// Returns the metrics, each a mean over the last tenth of the steps.
pub fn metrics() -> Vec<MetricInfo> {
    let metric = |name: &'static str, unit: &'static str, doc: &'static str| {
        MetricInfo::new(name, unit, doc).reduced_by(Reduce::LastTenth).optional()
    };
    vec![
        metric(REWARD, "reward", "Mean reward of the episodes.").higher(),
        metric("pass_rate", "share", "Share of episodes with a right answer.").higher(),
        metric("turns", "turns per episode", "Turns of the agent."),
        metric("tool_calls", "calls per episode", "Tool calls, including unreadable ones."),
        metric("tool_errors", "calls per episode", "Tool calls that failed.").lower(),
        metric("infrastructure_failures", "share", "Share of episodes that failed in the infrastructure.").lower(),
    ]
}
