//! The discounted return of each token: REINFORCE without a group.
//!
//! Why so: REINFORCE++ (2501.03262) is this part followed by the modulation `whiten`: one rollout per problem is enough, the batch is the
//! baseline. Refuses: discounting over tokens that the policy did not sample; observations take no time.

use crate::batch::{Batch, Grid, Rollout};
use crate::part::{Advantage, Part};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// Options of `discounted_return`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DiscountedReturn {
    /// What a reward is worth one sampled token earlier.
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
    const DOC: &'static str = "A_t = Σ_{k ≥ t} gamma^(k−t)·r_k over the tokens in the loss only (k − t counts those); the rollout's reward stands at its last one.\n\
        REINFORCE++ (2501.03262): gamma 1 and the modulation `whiten`.";
    fn check(&self) -> Vec<OptionProblem> {
        OptionProblem::outside("/gamma", self.gamma, 0.0..=1.0).into_iter().collect()
    }
}

impl Part for DiscountedReturn {}

impl Advantage for DiscountedReturn {
    fn assign(&mut self, batch: &Batch) -> Grid {
        batch.rollouts().map(|r| returns(&outcome_rewards(r), &r.mask, self.gamma)).collect()
    }
}

/// The rollout's reward at its last token in the loss.
pub fn outcome_rewards(rollout: &Rollout) -> Vec<f64> {
    let mut rewards = vec![0.0; rollout.mask.len()];
    if let Some(last) = rollout.mask.iter().rposition(|m| *m) {
        rewards[last] = rollout.trajectory.reward;
    }
    rewards
}

/// Discounted sums from each token in the loss on; 0 elsewhere.
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
    fn observations_take_no_time() {
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
