//! Implements `zero_variance`, which drops groups whose rewards are all equal. Their group advantage is zero, so they
//! only dilute the batch; drawing again keeps the number of informative groups constant (dynamic sampling, DAPO,
//! 2503.14476).

use crate::batch::Group;
use crate::part::{Filter, Needs, RlPart, RolloutVerdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{Chance, OptionProblem};

/// Options of `zero_variance`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ZeroVariance {
    /// Rewards that differ by at most this count as equal.
    #[schemars(range(min = 0))]
    pub epsilon: f64,
    /// Placebo: drops as many groups, chosen by chance.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_chance: bool,
}

impl Default for ZeroVariance {
    fn default() -> Self {
        Self { epsilon: 1e-9, by_chance: false }
    }
}

impl PartOptions for ZeroVariance {
    const KIND: &'static str = "zero_variance";
    const SUMMARY: &'static str = "drop groups whose rewards are all equal";
    const DOC: &'static str = "Drops a group if max(r) − min(r) ≤ epsilon, so groups of one always. With\n\
        `resample` the loop draws other problems in its place. Source: 2503.14476.";
    fn check(&self) -> Vec<OptionProblem> {
        OptionProblem::out_of_range("/epsilon", self.epsilon, 0.0..).into_iter().collect()
    }
}

impl RlPart for ZeroVariance {
    fn needs(&self) -> Needs {
        Needs { groups: true, ..Needs::NONE }
    }
}

impl Filter for ZeroVariance {
    fn judge(&mut self, groups: &[Group]) -> Vec<Vec<RolloutVerdict>> {
        let mut verdicts: Vec<RolloutVerdict> = groups.iter().map(|g| self.of_group(g)).collect();
        if self.by_chance {
            let dropped = verdicts.iter().filter(|v| **v != RolloutVerdict::Keep).count();
            verdicts = by_chance(groups, dropped);
        }
        verdicts.into_iter().zip(groups).map(|(verdict, g)| vec![verdict; g.rollouts.len()]).collect()
    }
}

/// Returns one verdict per group and drops `dropped` groups, chosen by the ids of their rollouts.
fn by_chance(groups: &[Group], dropped: usize) -> Vec<RolloutVerdict> {
    let draw = |g: &Group| {
        let id = g.rollouts.first().map(|r| r.trajectory.id.as_str()).unwrap_or_default();
        Chance::new(0).child("zero_variance by chance", &[]).at(id, &[]).next_u64()
    };
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_cached_key(|&i| (draw(&groups[i]), i));
    let mut verdicts = vec![RolloutVerdict::Keep; groups.len()];
    for &i in order.iter().take(dropped) {
        verdicts[i] = RolloutVerdict::Drop("dropped by chance".into());
    }
    verdicts
}

impl ZeroVariance {
    fn of_group(&self, group: &Group) -> RolloutVerdict {
        let rewards = group.rollouts.iter().map(|r| r.trajectory.reward);
        let highest = rewards.clone().fold(f64::NEG_INFINITY, f64::max);
        let lowest = rewards.fold(f64::INFINITY, f64::min);
        if highest - lowest > self.epsilon {
            RolloutVerdict::Keep
        } else {
            RolloutVerdict::Drop(format!("all rewards in the group are {highest}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Rollout;
    use trainyard_tables::Trajectory;

    fn named(id: &str, rewards: &[f64]) -> Group {
        let rollout = |&reward: &f64| Rollout {
            trajectory: Trajectory { id: id.into(), reward, ..Trajectory::default() },
            ..Rollout::default()
        };
        Group { rollouts: rewards.iter().map(rollout).collect(), ..Group::default() }
    }

    #[test]
    fn placebo_drops_as_many_groups_at_random() {
        let part = || ZeroVariance { by_chance: true, ..ZeroVariance::default() };
        let groups: Vec<Group> =
            (0..40).map(|i| named(&format!("rl/3/{i}"), if i < 20 { &[1.0, 1.0] } else { &[0.0, 1.0] })).collect();
        let dropped: Vec<usize> =
            (0..40).filter(|&i| part().judge(&groups)[i].iter().all(|v| *v != RolloutVerdict::Keep)).collect();
        assert_eq!(dropped.len(), 20);
        assert!(dropped.iter().any(|&i| i >= 20), "groups with spread leave as well: {dropped:?}");
    }

    #[test]
    fn groups_with_equal_rewards_are_dropped() {
        let group = |rewards: &[f64]| named("", rewards);
        let verdicts = ZeroVariance::default().judge(&[group(&[1.0, 1.0]), group(&[0.0, 1.0]), group(&[0.5])]);
        let kept: Vec<bool> = verdicts.iter().map(|g| g.iter().all(|v| *v == RolloutVerdict::Keep)).collect();
        assert_eq!(kept, [false, true, false]);
        assert_eq!(verdicts[0].len(), 2);
    }
}
