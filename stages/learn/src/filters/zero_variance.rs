//! `zero_variance`: drops groups whose rewards are all equal. Their group advantage is zero, so they only dilute the
//! batch; drawing again keeps the number of informative groups constant (dynamic sampling, DAPO, 2503.14476).

use crate::batch::Group;
use crate::part::{Filter, Needs, Part, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// Options of `zero_variance`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ZeroVariance {
    /// Rewards that differ by at most this count as equal.
    #[schemars(range(min = 0))]
    pub epsilon: f64,
}

impl Default for ZeroVariance {
    fn default() -> Self {
        Self { epsilon: 1e-9 }
    }
}

impl PartOptions for ZeroVariance {
    const KIND: &'static str = "zero_variance";
    const SUMMARY: &'static str = "drop groups whose rewards are all equal";
    const DOC: &'static str = "Drops a group if max(r) − min(r) ≤ epsilon, so groups of one always. With\n\
        `resample` the loop draws other problems in its place. Source: 2503.14476.";
    fn check(&self) -> Vec<OptionProblem> {
        OptionProblem::outside("/epsilon", self.epsilon, 0.0..).into_iter().collect()
    }
}

impl Part for ZeroVariance {
    fn needs(&self) -> Needs {
        Needs { groups: true, ..Needs::NONE }
    }
}

impl Filter for ZeroVariance {
    fn judge(&mut self, groups: &[Group]) -> Vec<Vec<Verdict>> {
        groups.iter().map(|g| vec![self.of_group(g); g.rollouts.len()]).collect()
    }
}

impl ZeroVariance {
    fn of_group(&self, group: &Group) -> Verdict {
        let rewards = group.rollouts.iter().map(|r| r.trajectory.reward);
        let most = rewards.clone().fold(f64::NEG_INFINITY, f64::max);
        let least = rewards.fold(f64::INFINITY, f64::min);
        if most - least > self.epsilon {
            Verdict::Keep
        } else {
            Verdict::Drop(format!("all rewards in the group are {most}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Rollout;
    use trainyard_tables::Trajectory;

    #[test]
    fn groups_with_equal_rewards_leave() {
        let group = |rewards: &[f64]| Group {
            rollouts: rewards
                .iter()
                .map(|&reward| Rollout {
                    trajectory: Trajectory { reward, ..Trajectory::default() },
                    ..Rollout::default()
                })
                .collect(),
            ..Group::default()
        };
        let verdicts = ZeroVariance::default().judge(&[group(&[1.0, 1.0]), group(&[0.0, 1.0]), group(&[0.5])]);
        let kept: Vec<bool> = verdicts.iter().map(|g| g.iter().all(|v| *v == Verdict::Keep)).collect();
        assert_eq!(kept, [false, true, false]);
        assert_eq!(verdicts[0].len(), 2);
    }
}
