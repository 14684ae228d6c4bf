//! Contains the code shared by strategies that fork a sequence when its entropy has risen: the measure, the rule and
//! the budget.

use crate::part::{GroupBudget, LiveSequence, Needs};
use crate::statistics::mean;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::{Chance, MetricInfo, OptionProblem, Reduce, above};

/// Needs of these strategies.
pub const NEEDS: Needs = Needs { fork: true, rollout_entropies: true, multi_turn: true, groups: true, ..Needs::NONE };

pub fn metric() -> MetricInfo {
    MetricInfo::new("forks", "forks per group", "Forks that were made.")
        .reduced_by(Reduce::LastTenth)
        .optional()
        .former_name("forks")
}

/// Returns the number of copies of a fork at this turn: `beam` − 1, limited by the rest of the group's budget. Returns
/// 0 for the first turn of a copy, because this node was already evaluated before the fork.
pub fn copies(beam: u32, live: &LiveSequence, group: &GroupBudget) -> u32 {
    let at_own_fork = live.since_fork == Some(0);
    let remaining = group.budget.saturating_sub(group.started);
    if at_own_fork { 0 } else { beam.saturating_sub(1).min(remaining) }
}

/// Rule by which a node's propensity P decides about a fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ForkRule {
    /// Fork if P > threshold, as in the papers.
    #[default]
    Threshold,
    /// Fork with probability P, as in the released code.
    Chance,
}

impl ForkRule {
    /// Decides about a fork. Draws are keyed by (group, sample, turn), so that nodes do not influence each other.
    pub fn forks(self, propensity: f64, threshold: f64, live: &LiveSequence, chance: &Chance) -> bool {
        match self {
            Self::Threshold => propensity > threshold,
            Self::Chance => {
                let place = [live.group as u64, u64::from(live.sample), u64::from(live.turn)];
                chance.at("fork", &place).uniform() < propensity
            }
        }
    }
}

/// Returns the mean entropy of the first `window` tokens of a turn, in nats, or `None` for an empty turn.
pub fn opening(turn: &[f64], window: usize) -> Option<f64> {
    let first = &turn[..window.min(turn.len())];
    mean(first)
}

/// Returns ΔH of every turn after a tool result, in turn order: the mean entropy of its opening minus that of turn 0,
/// in units of `normalizer` nats. A turn without tokens gives `None`; the list is empty if turn 0 has no tokens.
pub fn entropy_jumps(live: &LiveSequence, window: usize, normalizer: f64) -> Vec<Option<f64>> {
    let Some(root) = live.entropies.first().and_then(|t| opening(t, window)) else { return Vec::new() };
    live.entropies.iter().skip(1).map(|t| opening(t, window).map(|h| (h - root) / normalizer)).collect()
}

/// Checks the options that these strategies share.
pub fn check(window: usize, normalizer: f64, beam: u32) -> Vec<OptionProblem> {
    let normalizer = OptionProblem::out_of_range("/normalizer", normalizer, above(0.0));
    let normalizer = normalizer.map(|p| p.help("use a number of nats above 0; 1 means no scaling"));
    let counts = [OptionProblem::out_of_range("/beam", beam, 1..), OptionProblem::out_of_range("/window", window, 1..)];
    counts.into_iter().flatten().chain(normalizer).collect()
}
