//! Implements `overlong`, which keeps truncated trajectories out of the loss. A truncated episode is rewarded as a
//! failure although its tokens may be correct, so punishing them is noise (overlong filtering, 2503.14476). The episode
//! still counts in every measured rate.

use super::{RejectionAction, judge_each};
use crate::batch::Group;
use crate::part::{Filter, RlPart, RolloutVerdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;

/// Options of `overlong`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OverlongFilter {
    /// `mask` keeps the rollout in the baseline; `drop` removes it from the group.
    pub action: RejectionAction,
}

impl PartOptions for OverlongFilter {
    const KIND: &'static str = "overlong";
    const SUMMARY: &'static str = "keeps truncated trajectories out of the update";
    const DOC: &'static str = "Masks or drops every rollout that ended at a token limit. Source: 2503.14476.";
}

impl RlPart for OverlongFilter {}

impl Filter for OverlongFilter {
    fn judge(&mut self, groups: &[Group]) -> Vec<Vec<RolloutVerdict>> {
        judge_each(groups, |r| {
            if r.truncated() { self.action.verdict(r, "ended at a token limit".into()) } else { RolloutVerdict::Keep }
        })
    }
    fn resamples(&self) -> bool {
        self.action == RejectionAction::Drop
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Rollout;
    use trainyard_tables::{StopReason, Trajectory};

    #[test]
    fn truncated_rollouts_are_dropped_or_masked() {
        let group = || Group {
            rollouts: vec![Rollout {
                trajectory: Trajectory { stop_reason: StopReason::Length, ..Trajectory::default() },
                mask: vec![true; 2],
                ..Rollout::default()
            }],
            ..Group::default()
        };
        assert!(matches!(
            OverlongFilter { action: RejectionAction::Drop }.judge(&[group()])[0][0],
            RolloutVerdict::Drop(_)
        ));
        assert!(matches!(OverlongFilter::default().judge(&[group()])[0][0], RolloutVerdict::Mask(..)));
    }
}
