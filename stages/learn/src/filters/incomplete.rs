//! Implements `incomplete`, which keeps rollouts that ended without an answer out of the update.
//!
//! An episode cut off by a limit of turns or tool calls is rewarded as a failure, although its steps may have been
//! correct (SPEAR's baseline, 2509.22601). `void_turn` finds turns that neither call nor answer, and `overlong` the
//! token limit. Only this filter finds an episode whose last turn is a proper call.

use super::{RejectionAction, judge_each};
use crate::batch::Group;
use crate::part::{Filter, RlPart, RolloutVerdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;

/// Options of `incomplete`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct IncompleteFilter {
    /// `mask` keeps the rollout in the baseline; `drop` removes it from the group.
    pub action: RejectionAction,
}

impl PartOptions for IncompleteFilter {
    const KIND: &'static str = "incomplete";
    const SUMMARY: &'static str = "keeps rollouts without an answer out of the update";
    const DOC: &'static str = "Masks or drops every rollout in which no turn gave a final answer, whatever ended it.\n\
        Source: 2509.22601.";
}

impl RlPart for IncompleteFilter {}

impl Filter for IncompleteFilter {
    fn judge(&mut self, groups: &[Group]) -> Vec<Vec<RolloutVerdict>> {
        judge_each(groups, |r| {
            if r.turns.iter().any(|t| t.answered) {
                return RolloutVerdict::Keep;
            }
            self.action.verdict(r, format!("none of its {} turns gave an answer", r.turns.len()))
        })
    }
    fn resamples(&self) -> bool {
        self.action == RejectionAction::Drop
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Rollout, TurnSummary};
    use crate::filters::{overlong::OverlongFilter, void_turn::VoidTurnFilter};

    #[test]
    fn only_this_filter_catches_episodes_cut_after_a_call() {
        let call = TurnSummary { calls: 1, ..TurnSummary::default() };
        let answer = TurnSummary { answered: true, ..TurnSummary::default() };
        let rollout = |turns: &[&TurnSummary]| Rollout {
            mask: vec![true; 4],
            turns: turns.iter().map(|t| (*t).clone()).collect(),
            ..Rollout::default()
        };
        let group = [Group {
            rollouts: vec![rollout(&[&call, &answer]), rollout(&[&call, &call]), rollout(&[])],
            ..Group::default()
        }];
        let verdicts = IncompleteFilter::default().judge(&group);
        assert_eq!(verdicts[0][0], RolloutVerdict::Keep);
        assert!(matches!(&verdicts[0][1], RolloutVerdict::Mask(ranges, _) if *ranges == [(0, 4)]));
        assert!(matches!(verdicts[0][2], RolloutVerdict::Mask(..)));
        assert_eq!(VoidTurnFilter::default().judge(&group)[0][1], RolloutVerdict::Keep);
        assert_eq!(OverlongFilter::default().judge(&group)[0][1], RolloutVerdict::Keep);
        let mut dropping = IncompleteFilter { action: RejectionAction::Drop };
        assert!(matches!(dropping.judge(&group)[0][1], RolloutVerdict::Drop(_)) && dropping.resamples());
    }
}
