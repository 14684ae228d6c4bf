//! Implements `accuracy_band`, which keeps the groups whose pass rate is neither near 0 nor near 1.
//!
//! A group-relative gradient is largest where successes and failures are mixed. Near the ends a single, often lucky
//! rollout determines the gradient of the whole group (released recipe of SimpleTIR, 2509.02479). The pass rate counts
//! verified answers and not rewards, so shaped rewards cannot move a group into the band.

use crate::batch::Group;
use crate::part::{Filter, Needs, RlPart, RolloutVerdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// Options of `accuracy_band`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AccuracyBand {
    /// Smallest share of verified answers in a group that stays.
    #[schemars(range(min = 0, max = 1))]
    pub low: f64,
    /// Largest share of verified answers in a group that stays.
    #[schemars(range(min = 0, max = 1))]
    pub high: f64,
}

impl Default for AccuracyBand {
    fn default() -> Self {
        Self { low: 0.1, high: 0.9 }
    }
}

impl PartOptions for AccuracyBand {
    const KIND: &'static str = "accuracy_band";
    const SUMMARY: &'static str = "drop groups that pass nearly always or nearly never";
    const DOC: &'static str = "A group stays if low ≤ passes / rollouts ≤ high, over the rollouts that earlier\n\
        filters left in it, including masked ones. With `resample` the loop draws other problems in its place.\n\
        Source: released recipe of 2509.02479.";
    fn check(&self) -> Vec<OptionProblem> {
        let shares = [("/low", self.low), ("/high", self.high)];
        let outside = shares.into_iter().filter_map(|(at, share)| OptionProblem::out_of_range(at, share, 0.0..=1.0));
        outside.chain(OptionProblem::reversed_bounds(("/low", self.low), ("/high", self.high))).collect()
    }
}

impl RlPart for AccuracyBand {
    fn needs(&self) -> Needs {
        Needs { groups: true, ..Needs::NONE }
    }
}

impl Filter for AccuracyBand {
    fn judge(&mut self, groups: &[Group]) -> Vec<Vec<RolloutVerdict>> {
        groups.iter().map(|g| vec![self.of_group(g); g.rollouts.len()]).collect()
    }
}

impl AccuracyBand {
    fn of_group(&self, group: &Group) -> RolloutVerdict {
        let passes = group.rollouts.iter().filter(|r| r.correct).count();
        let accuracy = passes as f64 / group.rollouts.len().max(1) as f64;
        if (self.low..=self.high).contains(&accuracy) {
            RolloutVerdict::Keep
        } else {
            RolloutVerdict::Drop(format!("{passes} of {} rollouts in the group pass", group.rollouts.len()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Rollout;

    fn group(passes: usize, of: usize) -> Group {
        Group {
            rollouts: (0..of).map(|i| Rollout { correct: i < passes, ..Rollout::default() }).collect(),
            ..Group::default()
        }
    }
    fn kept(part: &mut AccuracyBand, groups: &[Group]) -> Vec<bool> {
        part.judge(groups).iter().map(|g| g.iter().all(|v| *v == RolloutVerdict::Keep)).collect()
    }

    #[test]
    fn band_includes_its_bounds() {
        let groups =
            [group(0, 10), group(1, 10), group(5, 10), group(9, 10), group(10, 10), group(1, 11), group(15, 16)];
        assert_eq!(kept(&mut AccuracyBand::default(), &groups), [false, true, true, true, false, false, false]);
        assert_eq!(kept(&mut AccuracyBand { low: 0.0, high: 0.0 }, &groups[..2]), [true, false]);
        let verdicts = AccuracyBand::default().judge(&[group(0, 3), Group::default()]);
        assert_eq!((verdicts[0].len(), verdicts[1].len()), (3, 0), "whole groups leave; an empty one has no verdicts");
    }

    #[test]
    fn empty_band_is_rejected() {
        for (low, high) in [(0.9, 0.1), (-0.1, 0.5), (0.5, 1.1), (f64::NAN, 0.5)] {
            assert!(!AccuracyBand { low, high }.check().is_empty());
        }
        assert!(AccuracyBand::default().check().is_empty());
    }
}
