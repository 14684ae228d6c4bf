//! Implements `ipo`, identity preference optimization: a regression of the log-ratio gap onto a finite target.

use super::{ImplicitReward, PairTerm, PreferenceLoss, PreferencePair, positive};
use crate::part::{Needs, RlPart};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// Options of `ipo`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Ipo {
    /// Strength of the constraint to the reference (τ of the paper): the target gap is 1/(2·beta).
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub beta: f64,
    /// Divide each answer's log-ratio by its number of tokens, as TRL does; false = the paper's sums.
    pub length_normalized: bool,
}

impl Default for Ipo {
    fn default() -> Self {
        Self { beta: 0.1, length_normalized: true }
    }
}

impl PartOptions for Ipo {
    const KIND: &'static str = "ipo";
    const SUMMARY: &'static str = "squared distance of the log-ratio gap from 1/(2·beta) (IPO)";
    const DOC: &'static str = "h = log-ratio of the chosen answer − that of the rejected one, where a\n\
        log-ratio is log π(y) − log π_ref(y), divided by the number of tokens with `length_normalized`. Loss\n\
        = (h − 1/(2·beta))². The reported rewards are beta times the log-ratios.\n\n\
        The target gap is finite, so pairs that are always labeled alike do not drive probabilities to 0,\n\
        as they do under a logistic loss. Needs the reference. Source: 2310.12036 (with sums); the mean over\n\
        tokens is what TRL computes.";
    fn check(&self) -> Vec<OptionProblem> {
        positive([("/beta", self.beta)])
    }
}

impl RlPart for Ipo {
    fn needs(&self) -> Needs {
        Needs { reference: true, ..Needs::NONE }
    }
}

impl PreferenceLoss for Ipo {
    fn value(&self, pair: &PreferencePair) -> PairTerm {
        let &Self { beta, length_normalized } = self;
        ImplicitReward { beta, reference_free: false, length_normalized }.pair_term(pair, |margin| {
            let off = (margin - 0.5) / beta;
            (off * off, 2.0 * off / beta)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::PairAnswer;
    use super::*;

    #[test]
    fn loss_matches_hand_computation_and_vanishes_at_its_target() {
        let pair = PreferencePair {
            chosen: PairAnswer { logprob: -5.0, reference: -8.0, tokens: 4 },
            rejected: PairAnswer { logprob: -4.0, reference: -3.0, tokens: 2 },
        };
        let sums = Ipo { beta: 0.25, length_normalized: false }.value(&pair);
        assert_eq!((sums.loss, sums.d_chosen, sums.d_rejected), (4.0, 4.0, -4.0), "h = 4, the target is 2");
        let means = Ipo { beta: 0.25, length_normalized: true }.value(&pair);
        assert_eq!((means.loss, means.d_chosen, means.d_rejected), (0.5625, -0.375, 0.75), "h = 1.25");
        let there = Ipo { beta: 0.125, length_normalized: false }.value(&pair);
        assert_eq!((there.loss, there.d_chosen, there.chosen_reward), (0.0, 0.0, 0.375));
    }
}
