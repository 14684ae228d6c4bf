//! Implements `prefix_entropy`, which keeps only the most uncertain tokens of a demonstration in the loss (Prefix-RFT,
//! 2507.01679).
//!
//! A given token that the policy did not expect has a very large gradient, and one with a probability near 1 has almost
//! no gradient. With equal treatment, the given tokens outweigh the policy's tokens, and the policy copies the
//! demonstration's surface.

use super::judge_each;
use crate::batch::{Group, Rollout};
use crate::part::{Filter, Needs, RlPart, RolloutVerdict};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// Options of `prefix_entropy`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PrefixEntropy {
    /// Share of a rollout's given tokens that stay in the loss.
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
}

impl Default for PrefixEntropy {
    fn default() -> Self {
        Self { share: 0.2 }
    }
}

impl PartOptions for PrefixEntropy {
    const KIND: &'static str = "prefix_entropy";
    const SUMMARY: &'static str = "learns only the most uncertain tokens of a given prefix";
    const DOC: &'static str = "Of the n tokens before `given` that are in the mask, the share·n (rounded up) with\n\
        the largest entropy under the sampling policy stay, earlier ones first among equals; the others are masked.\n\
        Tokens from `given` on are untouched. Given tokens without a measured entropy are masked. For the strategy\n\
        `demonstration_prefix`. Source: 2507.01679.";
    fn check(&self) -> Vec<OptionProblem> {
        OptionProblem::out_of_range("/share", self.share, 0.0..=1.0).into_iter().collect()
    }
}

impl RlPart for PrefixEntropy {
    fn needs(&self) -> Needs {
        Needs { rollout_entropies: true, ..Needs::NONE }
    }
}

impl Filter for PrefixEntropy {
    fn judge(&mut self, groups: &[Group]) -> Vec<Vec<RolloutVerdict>> {
        judge_each(groups, |r| {
            let (learned, mut masked) = self.split(r);
            masked.sort_unstable();
            if masked.is_empty() {
                return RolloutVerdict::Keep;
            }
            RolloutVerdict::Mask(
                ranges(&masked),
                format!("only the {learned} most uncertain of {} given tokens are learned", learned + masked.len()),
            )
        })
    }
    fn resamples(&self) -> bool {
        false
    }
}

impl PrefixEntropy {
    /// Returns the number of given tokens that stay, and the positions of the others.
    fn split(&self, rollout: &Rollout) -> (usize, Vec<usize>) {
        let mut given: Vec<usize> = (0..rollout.given.min(rollout.mask.len())).filter(|&t| rollout.mask[t]).collect();
        let Some(entropies) = &rollout.entropies else { return (0, given) };
        given.sort_by(|&a, &b| entropies[b].total_cmp(&entropies[a]));
        // Rounding errors must not turn 0.2 of five into two.
        let stay = ((self.share * given.len() as f64 - 1e-9).ceil() as usize).min(given.len());
        (stay, given.split_off(stay))
    }
}

/// Returns half-open ranges that hold exactly these ascending positions.
fn ranges(positions: &[usize]) -> Vec<(usize, usize)> {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &t in positions {
        match ranges.last_mut() {
            Some((_, end)) if *end == t => *end = t + 1,
            _ => ranges.push((t, t + 1)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a rollout of a prompt token, five given tokens around an observation at 3, and two of the policy's own.
    fn rollout(entropies: Option<Vec<f64>>) -> Rollout {
        let mask = vec![false, true, true, false, true, true, true, true, true];
        Rollout { mask, given: 7, entropies, ..Rollout::default() }
    }
    fn judged(share: f64, rollout: Rollout) -> RolloutVerdict {
        let group = Group { rollouts: vec![rollout], ..Group::default() };
        PrefixEntropy { share }.judge(&[group])[0][0].clone()
    }
    fn masked(verdict: RolloutVerdict) -> Vec<(usize, usize)> {
        match verdict {
            RolloutVerdict::Mask(ranges, _) => ranges,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn most_uncertain_given_tokens_stay() {
        let entropies = || Some(vec![9.0, 0.1, 0.8, 9.0, 0.3, 0.2, 0.9, 0.0, 0.0]);
        assert_eq!(masked(judged(0.2, rollout(entropies()))), [(1, 3), (4, 6)], "one of five: token 6");
        assert_eq!(masked(judged(0.4, rollout(entropies()))), [(1, 2), (4, 6)], "two: 2 and 6");
        assert_eq!(masked(judged(0.41, rollout(entropies()))), [(1, 2), (5, 6)], "rounded up to three");
        assert_eq!(masked(judged(0.0, rollout(entropies()))), [(1, 3), (4, 7)], "none; sampled tokens are unaffected");
        assert_eq!(judged(1.0, rollout(entropies())), RolloutVerdict::Keep);
    }

    #[test]
    fn ties_keep_earlier_tokens() {
        assert_eq!(masked(judged(0.4, rollout(Some(vec![0.5; 9])))), [(4, 7)]);
    }

    #[test]
    fn sampled_tokens_stay_and_unmeasured_given_tokens_are_masked() {
        assert_eq!(judged(0.2, Rollout { given: 0, ..rollout(Some(vec![0.5; 9])) }), RolloutVerdict::Keep);
        assert_eq!(judged(0.2, Rollout { given: 0, ..rollout(None) }), RolloutVerdict::Keep);
        assert_eq!(masked(judged(0.2, rollout(None))), [(1, 3), (4, 7)]);
    }

    #[test]
    fn share_above_one_is_rejected() {
        assert!([-0.1, 1.1, f64::NAN].iter().all(|&share| !PrefixEntropy { share }.check().is_empty()));
        assert!(PrefixEntropy::default().check().is_empty());
    }
}
