//! Implements `gae`, generalized advantage estimation over several turns. Tokens that the policy did not sample are
//! skipped: the value after an observation is that of the next sampled token.

use super::discounted_return::outcome_rewards;
use crate::batch::{Batch, TokenGrid};
use crate::part::{Advantage, Needs, RlPart};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// Options of `gae`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Gae {
    /// Discount factor per sampled token.
    #[schemars(range(min = 0, max = 1))]
    pub gamma: f64,
    /// 0 = one-step differences, 1 = full returns minus values.
    #[schemars(range(min = 0, max = 1))]
    pub lambda: f64,
}

impl Default for Gae {
    fn default() -> Self {
        Self { gamma: 1.0, lambda: 1.0 }
    }
}

impl PartOptions for Gae {
    const KIND: &'static str = "gae";
    const SUMMARY: &'static str = "generalized advantage estimation with a value head, observations skipped";
    const DOC: &'static str = "δ_t = r_t + gamma·V_{t+1} − V_t and A_t = δ_t + gamma·lambda·A_{t+1}, where t+1\n\
        is the next token in the loss (V and A are 0 after the last). The rollout's reward is that of its last token\n\
        in the loss. Targets of the value head: A + V, before modulations.\n\n\
        Use it with a value head to give each token its own credit; PPO adds the modulation `whiten`. Needs a value\n\
        head. Source: 1506.02438.";
    fn check(&self) -> Vec<OptionProblem> {
        let shares = [("/gamma", self.gamma), ("/lambda", self.lambda)];
        shares.into_iter().filter_map(|(at, share)| OptionProblem::out_of_range(at, share, 0.0..=1.0)).collect()
    }
}

impl RlPart for Gae {
    fn needs(&self) -> Needs {
        Needs { values: true, ..Needs::NONE }
    }
}

impl Advantage for Gae {
    fn assign(&mut self, batch: &Batch) -> TokenGrid {
        let row = |r: &crate::batch::Rollout| {
            let values = r.values.as_ref().expect("`needs` includes values");
            self.advantages(&outcome_rewards(r), values, &r.mask)
        };
        batch.rollouts().map(row).collect()
    }
    fn returns(&self, batch: &Batch, advantages: &TokenGrid) -> Option<TokenGrid> {
        let row = |(r, a): (&crate::batch::Rollout, &Vec<f64>)| {
            let values = r.values.as_ref().expect("`needs` includes values");
            a.iter().zip(values).zip(&r.mask).map(|((a, v), m)| if *m { a + v } else { 0.0 }).collect()
        };
        Some(batch.rollouts().zip(advantages).map(row).collect())
    }
}

impl Gae {
    /// Computes the advantages of one sequence; 0 where the mask is false.
    pub fn advantages(&self, rewards: &[f64], values: &[f64], mask: &[bool]) -> Vec<f64> {
        let mut advantages = vec![0.0; rewards.len()];
        let (mut value_after, mut after) = (0.0, 0.0);
        for t in (0..rewards.len()).rev().filter(|&t| mask[t]) {
            let delta = rewards[t] + self.gamma * value_after - values[t];
            after = delta + self.gamma * self.lambda * after;
            advantages[t] = after;
            value_after = values[t];
        }
        advantages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Group, Rollout};
    use trainyard_tables::Trajectory;

    #[test]
    fn lambda_one_is_the_return_minus_the_value() {
        let (rewards, values, mask) = ([0.0, 5.0, 0.0, 1.0], [0.3, 7.0, 0.5, 0.2], [true, false, true, true]);
        let gae = Gae { gamma: 0.9, lambda: 1.0 };
        let a = gae.advantages(&rewards, &values, &mask);
        for (t, return_) in [(0, 0.81), (2, 0.9), (3, 1.0)] {
            assert!((a[t] - (return_ - values[t])).abs() < 1e-12);
        }
        assert_eq!(a[1], 0.0);
        let one_step = Gae { gamma: 0.9, lambda: 0.0 }.advantages(&rewards, &values, &mask);
        assert!((one_step[0] - (0.9 * 0.5 - 0.3)).abs() < 1e-12, "the observation's own value is not read");
    }

    #[test]
    fn returns_are_advantages_plus_values() {
        let rollout = Rollout {
            trajectory: Trajectory { reward: 1.0, ..Trajectory::default() },
            mask: vec![false, true, true],
            values: Some(vec![9.0, 0.4, 0.6]),
            ..Rollout::default()
        };
        let batch = Batch { step: 0, groups: vec![Group { rollouts: vec![rollout], ..Group::default() }] };
        let mut gae = Gae::default();
        let a = gae.assign(&batch);
        assert_eq!(gae.returns(&batch, &a).unwrap(), vec![vec![0.0, 1.0, 1.0]]);
    }
}
