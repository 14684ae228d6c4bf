//! Implements `reward_spread`, which keeps the groups whose rewards differ most.
//!
//! If rewards hardly differ, dividing by their deviation amplifies noise, and without the division there is little to
//! learn. A share of the batch adapts to any scale of rewards (SPEAR, 2509.22601). Dropped groups are not drawn again:
//! some groups are always last, and a small later draw would be compared only with itself.

use crate::batch::Group;
use crate::part::{Filter, Needs, RlPart, RolloutVerdict};
use crate::statistics::deviation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Bound;
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// Options of `reward_spread`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RewardSpread {
    /// Share of the groups to keep.
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    pub share: f64,
}

impl Default for RewardSpread {
    fn default() -> Self {
        Self { share: 0.75 }
    }
}

impl PartOptions for RewardSpread {
    const KIND: &'static str = "reward_spread";
    const SUMMARY: &'static str = "keep the groups whose rewards differ most";
    const DOC: &'static str = "Of the n groups with rollouts, keeps the share·n (rounded up) with the largest\n\
        standard deviation of rewards, earlier ones first among equals. Deviations are population deviations (ddof 0)\n\
        over the rollouts that earlier filters left. Dropped groups are not drawn again. Source: 2509.22601.";
    fn check(&self) -> Vec<OptionProblem> {
        OptionProblem::out_of_range("/share", self.share, (Bound::Excluded(0.0), Bound::Included(1.0)))
            .into_iter()
            .collect()
    }
}

impl RlPart for RewardSpread {
    fn needs(&self) -> Needs {
        Needs { groups: true, all_groups: true, ..Needs::NONE }
    }
}

impl Filter for RewardSpread {
    fn judge(&mut self, groups: &[Group]) -> Vec<Vec<RolloutVerdict>> {
        let spreads: Vec<f64> = groups.iter().map(spread).collect();
        let mut order: Vec<usize> = (0..groups.len()).filter(|&g| !groups[g].rollouts.is_empty()).collect();
        order.sort_by(|&a, &b| spreads[b].total_cmp(&spreads[a]));
        // Rounding errors must not turn 0.7 of ten into eight.
        let keep = (self.share * order.len() as f64 - 1e-9).ceil().max(1.0) as usize;
        let mut verdicts: Vec<Vec<RolloutVerdict>> =
            groups.iter().map(|g| vec![RolloutVerdict::Keep; g.rollouts.len()]).collect();
        for &g in order.iter().skip(keep) {
            verdicts[g].fill(RolloutVerdict::Drop(format!(
                "{keep} groups have a reward deviation of at least {}",
                spreads[g]
            )));
        }
        verdicts
    }
    fn resamples(&self) -> bool {
        false
    }
}

/// Returns the population standard deviation of the rewards; 0 with fewer than two.
fn spread(group: &Group) -> f64 {
    let rewards: Vec<f64> = group.rollouts.iter().map(|r| r.trajectory.reward).collect();
    deviation(&rewards, 0).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Rollout;
    use trainyard_tables::Trajectory;

    fn group(rewards: &[f64]) -> Group {
        Group {
            rollouts: rewards
                .iter()
                .map(|&reward| Rollout {
                    trajectory: Trajectory { reward, ..Trajectory::default() },
                    ..Rollout::default()
                })
                .collect(),
            ..Group::default()
        }
    }
    fn kept(share: f64, groups: &[Group]) -> Vec<bool> {
        RewardSpread { share }.judge(groups).iter().map(|g| g.iter().all(|v| *v == RolloutVerdict::Keep)).collect()
    }

    #[test]
    fn quarter_with_the_least_spread_is_dropped() {
        // Deviations 0.5, 0, 1 and √2/3.
        let groups = [group(&[0.0, 1.0]), group(&[7.0, 7.0]), group(&[0.0, 2.0]), group(&[0.0, 0.0, 1.0])];
        assert_eq!(kept(0.75, &groups), [true, false, true, true]);
        assert_eq!(kept(0.5, &groups), [true, false, true, false]);
        assert_eq!(kept(0.01, &groups), [false, false, true, false], "rounded up: one stays");
        assert_eq!(kept(1.0, &groups), [true; 4]);
        assert!((spread(&groups[3]) - 2.0f64.sqrt() / 3.0).abs() < 1e-15);
        let verdicts = RewardSpread::default().judge(&groups);
        assert!(verdicts[1].len() == 2 && verdicts[1].iter().all(|v| matches!(v, RolloutVerdict::Drop(_))));
        assert!(!RewardSpread::default().resamples());
    }

    #[test]
    fn ties_keep_earlier_groups_and_empty_groups_do_not_count() {
        let equal = || group(&[0.0, 1.0]);
        assert_eq!(kept(0.5, &[equal(), equal(), equal(), equal()]), [true, true, false, false]);
        let groups = [group(&[]), equal(), group(&[]), group(&[3.0, 3.0])];
        let verdicts = RewardSpread { share: 0.5 }.judge(&groups);
        assert_eq!(verdicts.iter().map(Vec::len).collect::<Vec<_>>(), [0, 2, 0, 2]);
        assert!(verdicts[1][0] == RolloutVerdict::Keep && verdicts[3][0] != RolloutVerdict::Keep);
        assert!(RewardSpread::default().judge(&[]).is_empty());
    }

    #[test]
    fn counts_are_rounded_up_without_rounding_errors() {
        for n in 1..=40 {
            let groups: Vec<Group> = (0..n).map(|i| group(&[0.0, f64::from(i)])).collect();
            for tenths in 1..=10 {
                let stay = kept(f64::from(tenths) / 10.0, &groups).iter().filter(|k| **k).count();
                assert_eq!(stay as i32, (n * tenths + 9) / 10, "{tenths} tenths of {n}");
            }
        }
    }

    #[test]
    fn shares_outside_zero_to_one_are_rejected() {
        for share in [0.0, -1.0, 1.1, f64::NAN] {
            assert!(!RewardSpread { share }.check().is_empty());
        }
        assert!(RewardSpread::default().check().is_empty());
    }
}
