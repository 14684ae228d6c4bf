//! Keeps rollouts that ended without an answer out of the update.
//!
//! Why so: an episode that a limit of turns or tools cut off in the middle has the reward of a failure, though its steps may have
//! been right (SPEAR's baseline, 2509.22601). `void_turn` sees the turn that neither called nor answered, `overlong` the token limit;
//! an episode whose last turn is a proper call is neither, and ends here. Refuses: nothing.

use super::{Objection, each};
use crate::batch::Group;
use crate::part::{Filter, Part, Verdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;

/// Options of `incomplete`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Incomplete {
    /// `mask` keeps the rollout in the baseline; `drop` takes it out of the group.
    pub action: Objection,
}

impl PartOptions for Incomplete {
    const KIND: &'static str = "incomplete";
    const SUMMARY: &'static str = "no rollout without an answer reaches the update";
    const DOC: &'static str = "A rollout none of whose turns gave a final answer is masked or dropped, whatever ended it. Source: 2509.22601.";
}

impl Part for Incomplete {}

impl Filter for Incomplete {
    fn judge(&mut self, groups: &[Group]) -> Vec<Vec<Verdict>> {
        each(groups, |r| {
            if r.turns.iter().any(|t| t.answered) {
                return Verdict::Keep;
            }
            self.action.verdict(r, format!("none of its {} turns gave an answer", r.turns.len()))
        })
    }
    fn resamples(&self) -> bool {
        self.action == Objection::Drop
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Rollout, TurnSummary};
    use crate::filters::{Overlong, VoidTurn};

    #[test]
    fn an_episode_cut_behind_a_call_is_seen_by_this_filter_only() {
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
        let verdicts = Incomplete::default().judge(&group);
        assert_eq!(verdicts[0][0], Verdict::Keep);
        assert!(matches!(&verdicts[0][1], Verdict::Mask(ranges, _) if *ranges == [(0, 4)]));
        assert!(matches!(verdicts[0][2], Verdict::Mask(..)));
        assert_eq!(VoidTurn::default().judge(&group)[0][1], Verdict::Keep);
        assert_eq!(Overlong::default().judge(&group)[0][1], Verdict::Keep);
        let mut dropping = Incomplete { action: Objection::Drop };
        assert!(matches!(dropping.judge(&group)[0][1], Verdict::Drop(_)) && dropping.resamples());
    }
}
