//! Implements filters, which select the rollouts of an update.

pub mod accuracy_band;
pub mod incomplete;
pub mod overlong;
pub mod prefix_entropy;
pub mod repetition;
pub mod reward_spread;
pub mod void_turn;
pub mod zero_variance;

use crate::batch::{Group, Rollout};
use crate::part::RolloutVerdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Treatment of a rollout that a filter rejects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RejectionAction {
    /// Keep the rollout in the group's baseline, but no token of it in the loss.
    #[default]
    Mask,
    /// Remove the rollout from the group.
    Drop,
}

impl RejectionAction {
    fn verdict(self, rollout: &Rollout, reason: String) -> RolloutVerdict {
        match self {
            Self::Mask => RolloutVerdict::Mask(vec![(0, rollout.mask.len())], reason),
            Self::Drop => RolloutVerdict::Drop(reason),
        }
    }
}

/// Returns the verdicts of a rule that judges rollouts one by one.
fn judge_each(groups: &[Group], rule: impl Fn(&Rollout) -> RolloutVerdict) -> Vec<Vec<RolloutVerdict>> {
    groups.iter().map(|g| g.rollouts.iter().map(&rule).collect()).collect()
}
