//! Implements `repetition`, which keeps rollouts that repeat themselves out of the update.
//!
//! A policy in a loop writes the same sequence until a limit ends the episode. Such text may still earn a reward, and
//! learning from it reinforces the loop (SPEAR, 2509.22601). Sequences do not span turns, because a tool result between
//! turns is not the agent's text.

use super::{RejectionAction, judge_each};
use crate::batch::{Group, Rollout};
use crate::part::{Filter, RlPart, RolloutVerdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// Options of `repetition`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Repetition {
    /// Length of a sequence in tokens.
    #[schemars(range(min = 1))]
    pub ngram: usize,
    /// Number of occurrences of one sequence that rejects the rollout.
    #[schemars(range(min = 2))]
    pub times: u32,
    /// `mask` keeps the rollout in the baseline; `drop` removes it from the group.
    pub action: RejectionAction,
}

impl Default for Repetition {
    fn default() -> Self {
        Self { ngram: 20, times: 10, action: RejectionAction::Mask }
    }
}

impl PartOptions for Repetition {
    const KIND: &'static str = "repetition";
    const SUMMARY: &'static str = "keeps rollouts that repeat a sequence of tokens out of the update";
    const DOC: &'static str = "Masks or drops a rollout if any `ngram` consecutive tokens of its agent turns occur at\n\
        least `times` times in it, overlaps included: 29 equal tokens contain ten sequences of 20. Source: 2509.22601.";
    fn check(&self) -> Vec<OptionProblem> {
        [OptionProblem::out_of_range("/ngram", self.ngram, 1..), OptionProblem::out_of_range("/times", self.times, 2..)]
            .into_iter()
            .flatten()
            .collect()
    }
}

impl RlPart for Repetition {}

impl Filter for Repetition {
    fn judge(&mut self, groups: &[Group]) -> Vec<Vec<RolloutVerdict>> {
        judge_each(groups, |r| match self.max_occurrences(r) {
            count if count >= self.times => {
                self.action.verdict(r, format!("a sequence of {} tokens occurs {count} times", self.ngram))
            }
            _ => RolloutVerdict::Keep,
        })
    }
    fn resamples(&self) -> bool {
        self.action == RejectionAction::Drop
    }
}

impl Repetition {
    /// Counts the occurrences of the most frequent sequence.
    fn max_occurrences(&self, rollout: &Rollout) -> u32 {
        let mut counts: BTreeMap<&[u32], u32> = BTreeMap::new();
        for turn in &rollout.turns {
            let end = turn.end.min(rollout.trajectory.token_ids.len());
            for stretch in rollout.trajectory.token_ids[turn.first.min(end)..end].windows(self.ngram) {
                *counts.entry(stretch).or_default() += 1;
            }
        }
        counts.into_values().max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::TurnSummary;
    use trainyard_tables::Trajectory;

    /// Returns a rollout of a prompt of two tokens, then turns separated by an observation of one token.
    fn rollout(turns: &[&[u32]]) -> Rollout {
        let mut tokens = vec![1, 2];
        let mut summaries = Vec::new();
        for turn in turns {
            let first = tokens.len();
            tokens.extend_from_slice(turn);
            summaries.push(TurnSummary { first, end: tokens.len(), ..TurnSummary::default() });
            tokens.push(0);
        }
        Rollout {
            mask: vec![true; tokens.len()],
            trajectory: Trajectory { token_ids: tokens, ..Trajectory::default() },
            turns: summaries,
            ..Rollout::default()
        }
    }
    fn judged(part: &mut Repetition, turns: &[&[u32]]) -> RolloutVerdict {
        part.judge(&[Group { rollouts: vec![rollout(turns)], ..Group::default() }])[0][0].clone()
    }

    #[test]
    fn sequences_are_counted_over_all_turns_but_not_across_them() {
        let mut part = Repetition { ngram: 2, times: 3, ..Repetition::default() };
        // (1, 2) also occurs in the prompt, which does not count.
        assert_eq!(judged(&mut part, &[&[1, 2, 1, 2]]), RolloutVerdict::Keep);
        assert!(
            matches!(judged(&mut part, &[&[1, 2, 1, 2, 1, 2]]), RolloutVerdict::Mask(ranges, _) if ranges == [(0, 9)])
        );
        assert!(matches!(judged(&mut part, &[&[1, 2], &[3, 1, 2], &[1, 2, 4]]), RolloutVerdict::Mask(..)));
        assert_eq!(judged(&mut part, &[&[2, 1], &[2, 1, 1], &[2, 2]]), RolloutVerdict::Keep);
        assert_eq!(judged(&mut part, &[&[7], &[], &[7], &[7]]), RolloutVerdict::Keep, "no sequence of two");
        part.action = RejectionAction::Drop;
        assert!(
            matches!(judged(&mut part, &[&[5, 5, 5, 5]]), RolloutVerdict::Drop(reason) if reason.contains("3 times")),
            "overlaps count"
        );
        assert!(part.resamples());
    }

    #[test]
    fn defaults_are_ten_times_twenty() {
        let mut part = Repetition::default();
        assert_eq!(judged(&mut part, &[&[5; 28]]), RolloutVerdict::Keep);
        assert!(matches!(judged(&mut part, &[&[5; 29]]), RolloutVerdict::Mask(..)));
        assert!(!part.resamples());
    }

    #[test]
    fn options_without_repetition_are_rejected() {
        assert!(!Repetition { ngram: 0, ..Repetition::default() }.check().is_empty());
        assert!(!Repetition { times: 1, ..Repetition::default() }.check().is_empty());
        assert!(Repetition::default().check().is_empty());
    }
}
