//! Implements `group`, the reward of a rollout relative to its group. GRPO, Dr.GRPO, RLOO and their mixtures differ
//! only in baseline and scale, so they are one part with every constant explicit.

use crate::batch::{Batch, TokenGrid};
use crate::part::{Advantage, Needs, RlPart};
use crate::statistics::deviation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// Baseline that is subtracted from a reward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Center {
    /// Mean of the group.
    #[default]
    Group,
    /// Mean of the other rollouts of the group; a single rollout keeps its reward.
    LeaveOneOut,
    /// Mean of the batch.
    Batch,
    /// 0.
    None,
}

/// Divisor of the centered reward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdvantageScale {
    /// Standard deviation of the group plus epsilon.
    #[default]
    Group,
    /// Standard deviation of the batch plus epsilon.
    Batch,
    /// 1.
    None,
}

/// Options of `group`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GroupAdvantage {
    /// Baseline: the mean of the group, of the group's other rollouts (leave_one_out), of the batch, or none.
    pub center: Center,
    /// Divisor: standard deviation of the group, of the batch, or none.
    pub scale: AdvantageScale,
    /// 1 = sample standard deviation, 0 = population.
    #[schemars(range(min = 0, max = 1))]
    pub ddof: u8,
    /// Term added to the standard deviation.
    #[schemars(range(min = 0))]
    pub epsilon: f64,
}

impl Default for GroupAdvantage {
    fn default() -> Self {
        Self { center: Center::Group, scale: AdvantageScale::Group, ddof: 1, epsilon: 1e-6 }
    }
}

impl PartOptions for GroupAdvantage {
    const KIND: &'static str = "group";
    const SUMMARY: &'static str = "reward relative to the group (GRPO, Dr.GRPO, RLOO)";
    const DOC: &'static str = "A = (r − center) / (std + epsilon), the same for every token of a rollout.\n\n\
        GRPO (2402.03300): center group, scale group, ddof 1, epsilon 1e-6. Dr.GRPO (2503.20783): scale none. RLOO\n\
        (2402.14740): center leave_one_out, scale none, which equals G/(G−1)·(r − mean). Lite PPO (2508.08221):\n\
        center group, scale batch.\n\n\
        In a group of one, center group and leave_one_out are 0 and scale group is 1. Where all rewards are equal and\n\
        epsilon is 0, A is 0.";
    fn check(&self) -> Vec<OptionProblem> {
        super::deviation_options(self.ddof, self.epsilon)
    }
}

impl RlPart for GroupAdvantage {
    fn needs(&self) -> Needs {
        let grouped = matches!(self.center, Center::Group | Center::LeaveOneOut) || self.scale == AdvantageScale::Group;
        Needs { groups: grouped, ..Needs::NONE }
    }
}

impl Advantage for GroupAdvantage {
    fn assign(&mut self, batch: &Batch) -> TokenGrid {
        let all: Vec<f64> = batch.rollouts().map(|r| r.trajectory.reward).collect();
        let values: Vec<f64> = batch
            .groups
            .iter()
            .flat_map(|g| self.of_group(&g.rollouts.iter().map(|r| r.trajectory.reward).collect::<Vec<_>>(), &all))
            .collect();
        batch.spread(&values)
    }
}

impl GroupAdvantage {
    fn of_group(&self, rewards: &[f64], all: &[f64]) -> Vec<f64> {
        let scale = match self.scale {
            AdvantageScale::Group => deviation(rewards, self.ddof).map_or(1.0, |d| d + self.epsilon),
            AdvantageScale::Batch => deviation(all, self.ddof).map_or(1.0, |d| d + self.epsilon),
            AdvantageScale::None => 1.0,
        };
        let n = rewards.len() as f64;
        let sum: f64 = rewards.iter().sum();
        let center = |r: f64| match self.center {
            _ if rewards.len() < 2 && self.center != Center::Batch => 0.0,
            Center::Group => sum / n,
            Center::LeaveOneOut => (sum - r) / (n - 1.0),
            Center::Batch => all.iter().sum::<f64>() / all.len() as f64,
            Center::None => 0.0,
        };
        // Equal rewards without epsilon give 0/0; their advantage is 0.
        rewards.iter().map(|&r| (r - center(r)) / scale).map(|a| if a.is_nan() { 0.0 } else { a }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Group as Rollouts, Rollout};
    use trainyard_tables::Trajectory;

    fn batch(groups: &[&[f64]]) -> Batch {
        let rollout = |&reward: &f64| Rollout {
            trajectory: Trajectory { reward, ..Trajectory::default() },
            mask: vec![false, true],
            ..Rollout::default()
        };
        Batch {
            step: 0,
            groups: groups
                .iter()
                .map(|g| Rollouts { rollouts: g.iter().map(rollout).collect(), ..Rollouts::default() })
                .collect(),
        }
    }
    fn assign(mut part: GroupAdvantage, groups: &[&[f64]]) -> Vec<f64> {
        let grid = part.assign(&batch(groups));
        assert!(grid.iter().all(|row| row[0] == 0.0), "masked tokens get 0");
        grid.iter().map(|row| row[1]).collect()
    }

    #[test]
    fn grpo_matches_hand_computation() {
        let a = assign(GroupAdvantage { epsilon: 0.0, ..GroupAdvantage::default() }, &[&[1.0, 0.0], &[3.0, 3.0]]);
        let half = 0.5 / 0.5f64.sqrt();
        assert_eq!(a, [half, -half, 0.0, 0.0]);
    }

    #[test]
    fn rloo_is_the_scaled_difference_from_the_mean() {
        let rewards = [1.0, 0.0, 0.5, 2.0];
        let a = assign(
            GroupAdvantage { center: Center::LeaveOneOut, scale: AdvantageScale::None, ..GroupAdvantage::default() },
            &[&rewards],
        );
        let mean = rewards.iter().sum::<f64>() / 4.0;
        for (a, r) in a.iter().zip(rewards) {
            assert!((a - 4.0 / 3.0 * (r - mean)).abs() < 1e-12);
        }
    }

    #[test]
    fn single_rollout_keeps_its_reward() {
        assert_eq!(
            assign(GroupAdvantage { scale: AdvantageScale::None, ..GroupAdvantage::default() }, &[&[0.7]]),
            [0.7]
        );
        assert_eq!(
            assign(GroupAdvantage { center: Center::LeaveOneOut, ..GroupAdvantage::default() }, &[&[0.7]]),
            [0.7]
        );
    }

    #[test]
    fn group_mean_with_batch_scale() {
        let a = assign(
            GroupAdvantage { scale: AdvantageScale::Batch, ddof: 0, epsilon: 0.0, ..GroupAdvantage::default() },
            &[&[1.0, 0.0], &[1.0, 1.0]],
        );
        let deviation = (3.0f64 / 16.0).sqrt();
        assert!((a[0] - 0.5 / deviation).abs() < 1e-12 && a[2] == 0.0);
    }
}
