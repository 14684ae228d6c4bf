//! Filters: selection of the rollouts of an update.

pub mod accuracy_band;
pub mod incomplete;
pub mod overlong;
pub mod prefix_entropy;
pub mod repetition;
pub mod reward_spread;
pub mod void_turn;
pub mod zero_variance;

use crate::batch::{Group, Rollout};
use crate::part::Verdict;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Treatment of a rollout that a filter rejects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Objection {
    /// Keep the rollout in the group's baseline, but no token of it in the loss.
    #[default]
    Mask,
    /// Remove the rollout from the group.
    Drop,
}

impl Objection {
    fn verdict(self, rollout: &Rollout, reason: String) -> Verdict {
        match self {
            Self::Mask => Verdict::Mask(vec![(0, rollout.mask.len())], reason),
            Self::Drop => Verdict::Drop(reason),
        }
    }
}

/// Applies a rule that judges rollouts one by one.
fn each(groups: &[Group], rule: impl Fn(&Rollout) -> Verdict) -> Vec<Vec<Verdict>> {
    groups.iter().map(|g| g.rollouts.iter().map(&rule).collect()).collect()
}
