//! Metrics of single problems, computed from rollouts, for two arms that practiced on the same problems.
//!
//! Two arms with one seed draw from one pool, so the problems explain most of the difference between their rollouts,
//! and values can be paired by problem. A problem's value is the mean over its rollouts. For a ratio it is the sum of
//! the numerators over the sum of the denominators, because a mean of ratios is undefined if one rollout divides by 0.
//! Infrastructure failures are left out. A fork's tokens count from the point where it left its parent, because the
//! common beginning was sampled once.
//!
//! If no rollout has the component that `correct` or `rewards.<component>` names, the error lists the components there
//! are.

use super::metrics::ProblemValues;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::{Error, MetricInfo, Result};
use trainyard_tables::{EpisodeStatus, StopReason, Trajectory};

/// Metric of a problem's rollouts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrajectoryMetric {
    /// Mean reward.
    Reward,
    /// The reward component that marks right answers is at least 1.
    Correct,
    /// Tool calls per rollout.
    ToolCalls,
    /// Failed tool calls per rollout.
    ToolErrors,
    /// Turns of the agent per rollout.
    Turns,
    /// Tokens that the rollout sampled itself.
    Tokens,
    /// The rollout has a turn with neither a complete tool call nor a final answer (SimpleTIR, arXiv 2509.02479).
    Void,
    /// One component of the reward.
    Component(String),
    /// Sampled tokens of a problem's rollouts per distinct answer.
    TokensPerDistinctAnswer,
    /// Tool calls over the number of right answers (OTC, arXiv 2504.14870, inverted).
    ToolCallsPerCorrect,
}

/// Metrics with a fixed name.
const FIXED: [(&str, TrajectoryMetric); 9] = [
    ("correct", TrajectoryMetric::Correct),
    ("reward", TrajectoryMetric::Reward),
    ("tokens", TrajectoryMetric::Tokens),
    ("tokens_per_distinct_answer", TrajectoryMetric::TokensPerDistinctAnswer),
    ("tool_calls", TrajectoryMetric::ToolCalls),
    ("tool_calls_per_correct", TrajectoryMetric::ToolCallsPerCorrect),
    ("tool_errors", TrajectoryMetric::ToolErrors),
    ("turns", TrajectoryMetric::Turns),
    ("void", TrajectoryMetric::Void),
];
/// Prefix of a component's name.
pub(super) const COMPONENT: &str = "rewards.";

/// Returns the comparable metrics with unit and meaning; every value is a mean over problems.
pub fn declared() -> Vec<MetricInfo> {
    vec![
        MetricInfo::new("reward", "reward", "Mean reward of a problem's rollouts.").higher(),
        MetricInfo::new("correct", "share", "Share of a problem's rollouts that are correct.").higher(),
        MetricInfo::new("tool_calls", "calls per rollout", "Tool calls."),
        MetricInfo::new("tool_errors", "calls per rollout", "Tool calls that failed.").lower(),
        MetricInfo::new("turns", "turns per rollout", "Turns that the agent took."),
        MetricInfo::new(
            "tokens",
            "tokens per rollout",
            "Sampled tokens; a fork's count from where it left its parent.",
        ),
        MetricInfo::new(
            "void",
            "share",
            "Share of a problem's rollouts with a turn that holds neither a tool call nor an answer.",
        )
        .lower(),
        MetricInfo::new("rewards.<component>", "reward", "Mean of this component of the reward.").higher(),
        MetricInfo::new(
            "tokens_per_distinct_answer",
            "tokens",
            "Sampled tokens of a problem's rollouts per distinct answer.",
        )
        .lower(),
        MetricInfo::new("tool_calls_per_correct", "calls", "Tool calls over the number of right answers.").lower(),
    ]
}

impl TrajectoryMetric {
    /// Reads a name such as `void` or `rewards.format`; none if trajectories have no such metric.
    pub fn parse(name: &str) -> Option<Self> {
        if let Some(component) = name.strip_prefix(COMPONENT) {
            return (!component.is_empty()).then(|| Self::Component(component.to_string()));
        }
        FIXED.iter().find(|(n, _)| *n == name).map(|(_, metric)| metric.clone())
    }

    /// The value of every problem that has one. `correct` names the reward component that marks right answers.
    pub fn by_problem(&self, rows: &[Trajectory], correct: &str) -> Result<ProblemValues> {
        let counted: Vec<&Trajectory> = rows.iter().filter(|r| r.status == EpisodeStatus::Ok).collect();
        if let Some(component) = self.component(correct) {
            known_component(&counted, component)?;
        }
        let mut groups: BTreeMap<&str, Vec<&Trajectory>> = BTreeMap::new();
        for row in counted {
            groups.entry(&row.problem_id).or_default().push(row);
        }
        let value = |(id, group): (&str, Vec<&Trajectory>)| self.of(&group, correct).map(|v| (id.to_string(), v));
        Ok(groups.into_iter().filter_map(value).collect())
    }

    /// The reward component that the metric reads, if any.
    fn component<'a>(&'a self, correct: &'a str) -> Option<&'a str> {
        match self {
            Self::Component(name) => Some(name),
            Self::Correct | Self::ToolCallsPerCorrect => Some(correct),
            _ => None,
        }
    }

    /// The value of one problem from its rollouts; none if they cannot give one.
    fn of(&self, rows: &[&Trajectory], correct: &str) -> Option<f64> {
        let right = |r: &&Trajectory| r.rewards.get(correct).map(|v| f64::from(u8::from(*v >= 1.0)));
        let mean = |of: &dyn Fn(&&Trajectory) -> Option<f64>| {
            let values: Vec<f64> = rows.iter().filter_map(of).collect();
            trainyard_learn::statistics::mean(&values)
        };
        match self {
            Self::Reward => mean(&|r| Some(r.reward)),
            Self::Correct => mean(&right),
            Self::ToolCalls => mean(&|r| Some(f64::from(r.tool_calls))),
            Self::ToolErrors => mean(&|r| Some(f64::from(r.tool_errors))),
            Self::Turns => mean(&|r| Some(f64::from(r.turns))),
            Self::Tokens => mean(&|r| Some(own_tokens(r) as f64)),
            Self::Void => mean(&|r| Some(f64::from(u8::from(is_void(r))))),
            Self::Component(name) => mean(&|r| r.rewards.get(name).copied()),
            Self::TokensPerDistinctAnswer => {
                let answers: BTreeSet<&str> = rows.iter().filter_map(|r| r.answer.as_deref()).map(str::trim).collect();
                ratio(rows.iter().map(|r| own_tokens(r) as f64).sum(), answers.len() as f64)
            }
            Self::ToolCallsPerCorrect => {
                let judged: Vec<(&&Trajectory, f64)> = rows.iter().filter_map(|r| Some((r, right(r)?))).collect();
                ratio(
                    judged.iter().map(|(r, _)| f64::from(r.tool_calls)).sum(),
                    judged.iter().map(|(_, right)| right).sum(),
                )
            }
        }
    }
}

fn ratio(numerator: f64, denominator: f64) -> Option<f64> {
    (denominator > 0.0).then(|| numerator / denominator)
}

/// Number of tokens that this rollout sampled itself.
fn own_tokens(row: &Trajectory) -> usize {
    row.loss_mask.iter().skip(row.fork_at.unwrap_or(0) as usize).filter(|sampled| **sampled).count()
}

/// As the loop judges turns: a message without a complete call is void unless a user replied to it, or it is the last
/// one and its answer was read. Messages before the agent's own turns belong to the prompt.
fn is_void(row: &Trajectory) -> bool {
    let assistant: Vec<usize> = (0..row.messages.len()).filter(|&i| row.messages[i].role == "assistant").collect();
    let agent_messages = &assistant[assistant.len().saturating_sub(row.turns as usize)..];
    let answered = row.stop_reason == StopReason::Answer && row.answer.is_some();
    let has_reply = |at: usize| row.messages.get(at + 1).is_some_and(|next| next.role == "user");
    let empty = |at: usize| row.messages[at].tool_calls.is_none() && !has_reply(at);
    agent_messages.iter().enumerate().any(|(i, &at)| empty(at) && !(answered && i + 1 == agent_messages.len()))
}

fn known_component(rows: &[&Trajectory], component: &str) -> Result<()> {
    if rows.is_empty() || rows.iter().any(|r| r.rewards.contains_key(component)) {
        return Ok(());
    }
    let names: BTreeSet<&str> = rows.iter().flat_map(|r| r.rewards.keys().map(String::as_str)).collect();
    let names: Vec<&str> = names.into_iter().collect();
    Err(Error::data(format!("no rollout has a reward `{component}`"))
        .help(format!("its components are: {}; set `correct` to the one that marks right answers", names.join(", "))))
}

#[cfg(test)]
#[path = "trajectories_tests.rs"]
mod tests;
