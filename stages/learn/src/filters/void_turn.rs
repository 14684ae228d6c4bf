//! Implements `void_turn`, which keeps trajectories with a void turn out of the update. Multi-turn training diverges at
//! turns with neither a complete tool call nor a final answer, because their tokens are very unlikely and their
//! gradients large (SimpleTIR, 2509.02479).

use super::{RejectionAction, judge_each};
use crate::batch::{Group, TurnSummary};
use crate::part::{Filter, RlPart, RolloutVerdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;

/// Options of `void_turn`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct VoidTurnFilter {
    /// `mask` keeps the rollout in the baseline; `drop` removes it from the group.
    pub action: RejectionAction,
}

impl PartOptions for VoidTurnFilter {
    const KIND: &'static str = "void_turn";
    const SUMMARY: &'static str = "keeps trajectories with a void turn out of the update";
    const DOC: &'static str = "Masks or drops a rollout with a void turn, one with neither a complete tool call nor a\n\
        final answer. In environments with a user, words to the user are not void. Source: 2509.02479.";
}

impl RlPart for VoidTurnFilter {}

impl Filter for VoidTurnFilter {
    fn judge(&mut self, groups: &[Group]) -> Vec<Vec<RolloutVerdict>> {
        judge_each(groups, |r| match r.turns.iter().position(TurnSummary::is_void) {
            Some(turn) => self.action.verdict(r, format!("turn {turn} has neither a complete tool call nor an answer")),
            None => RolloutVerdict::Keep,
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

    #[test]
    fn reply_to_a_user_is_not_a_void_turn() {
        let reply = TurnSummary { spoken: true, ..TurnSummary::default() };
        assert!(!reply.is_void() && TurnSummary::default().is_void());
    }

    #[test]
    fn void_turn_masks_the_whole_rollout() {
        let call = TurnSummary { calls: 1, ..TurnSummary::default() };
        let answer = TurnSummary { answered: true, ..TurnSummary::default() };
        let rollout = |turns: Vec<TurnSummary>| Rollout { mask: vec![true; 5], turns, ..Rollout::default() };
        let group = Group {
            rollouts: vec![rollout(vec![call.clone(), answer.clone()]), rollout(vec![call, TurnSummary::default()])],
            ..Group::default()
        };
        let verdicts = VoidTurnFilter::default().judge(&[group]);
        assert_eq!(verdicts[0][0], RolloutVerdict::Keep);
        assert!(matches!(&verdicts[0][1], RolloutVerdict::Mask(ranges, _) if *ranges == [(0, 5)]));
    }
}
