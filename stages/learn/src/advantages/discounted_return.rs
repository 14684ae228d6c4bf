//! Implements `discounted_return`, which assigns the discounted return to each token: REINFORCE without groups.

use crate::batch::{Batch, Rollout, TokenGrid};
use crate::part::{Advantage, RlPart};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// Options of `discounted_return`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DiscountedReturn {
    /// Discount factor per sampled token.
    #[schemars(range(min = 0, max = 1))]
    pub gamma: f64,
}

impl Default for DiscountedReturn {
    fn default() -> Self {
        Self { gamma: 1.0 }
    }
}

impl PartOptions for DiscountedReturn {
    const KIND: &'static str = "discounted_return";
    const SUMMARY: &'static str = "discounted return of each token; with `whiten` REINFORCE++";
    const DOC: &'static str = "A_t = Σ_{k ≥ t} gamma^(k−t)·r_k, where only tokens in the loss are counted and\n\
        the rollout's reward is that of its last one. Observations therefore cost no discount.\n\n\
        One rollout per problem is enough. With gamma 1 and the modulation `whiten`, which makes the batch the\n\
        baseline, this is REINFORCE++ (2501.03262).";
    fn check(&self) -> Vec<OptionProblem> {
        OptionProblem::out_of_range("/gamma", self.gamma, 0.0..=1.0).into_iter().collect()
    }
}

impl RlPart for DiscountedReturn {}

impl Advantage for DiscountedReturn {
    fn assign(&mut self, batch: &Batch) -> TokenGrid {
        batch.rollouts().map(|r| returns(&outcome_rewards(r), &r.mask, self.gamma)).collect()
    }
}

/// Returns the rollout's reward at its last token in the loss, 0 elsewhere.
pub fn outcome_rewards(rollout: &Rollout) -> Vec<f64> {
    let mut rewards = vec![0.0; rollout.mask.len()];
    if let Some(last) = rollout.mask.iter().rposition(|m| *m) {
        rewards[last] = rollout.trajectory.reward;
    }
    rewards
}

/// Returns the discounted sum of rewards from each token in the loss onward; 0 where the mask is false.
pub fn returns(rewards: &[f64], mask: &[bool], gamma: f64) -> Vec<f64> {
    let mut sums = vec![0.0; rewards.len()];
    let mut after = 0.0;
    for t in (0..rewards.len()).rev().filter(|&t| mask[t]) {
        after = rewards[t] + gamma * after;
        sums[t] = after;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_tables::Trajectory;

    #[test]
    fn observations_are_not_discounted() {
        assert_eq!(returns(&[0.0, 9.0, 0.0, 8.0], &[true, false, true, true], 0.5), [2.0, 0.0, 4.0, 8.0]);
        let rollout = Rollout {
            trajectory: Trajectory { reward: 3.0, ..Trajectory::default() },
            mask: vec![true, true, false],
            ..Rollout::default()
        };
        assert_eq!(outcome_rewards(&rollout), [0.0, 3.0, 0.0]);
        assert!(!DiscountedReturn { gamma: 1.5 }.check().is_empty());
    }
}
