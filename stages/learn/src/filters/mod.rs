//! Filters: which rollouts enter the update.

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

/// What happens to a rollout that a filter rejects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Objection {
    /// It stays in the group's baseline, but none of its tokens enter the loss.
    #[default]
    Mask,
    /// It leaves the group.
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
