//! Implements preference losses, functions of one pair of a chosen and a rejected answer to one prompt that return
//! their own slopes.
//!
//! The input of a loss is, for each answer, the sum of the log-probabilities of its tokens in the loss, under the
//! policy and under the reference, and the number of these tokens. Every published form is a function of these six
//! numbers, so no form needs a tensor, and pairs are independent of each other: a step's loss is the mean over its
//! pairs.

pub mod dpo;
#[cfg(test)]
mod golden_tests;
pub mod hinge;
pub mod ipo;
pub mod orpo;
pub mod robust;
pub mod simpo;

use crate::part::RlPart;
use trainyard_core::{OptionProblem, above};

/// One answer of a pair.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PairAnswer {
    /// Sum of the tokens' log-probabilities under the policy, in nats.
    pub logprob: f64,
    /// Sum under the reference; 0 for losses without a reference.
    pub reference: f64,
    /// Number of tokens in these sums, at least 1.
    pub tokens: usize,
}

/// A chosen and a rejected answer to one prompt.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PreferencePair {
    pub chosen: PairAnswer,
    pub rejected: PairAnswer,
}

/// Loss of one pair with its slopes and rewards.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PairTerm {
    /// The loss, in nats (in squared nats for `ipo`).
    pub loss: f64,
    /// Derivative of the loss by [`PairAnswer::logprob`] of the chosen answer.
    pub d_chosen: f64,
    /// Derivative of the loss by [`PairAnswer::logprob`] of the rejected answer.
    pub d_rejected: f64,
    /// Implicit reward of the chosen answer, as the loss defines it.
    pub chosen_reward: f64,
    /// Implicit reward of the rejected answer.
    pub rejected_reward: f64,
}

/// Loss on pairs of answers. A loss that reads [`PairAnswer::reference`] sets [`crate::Needs::reference`].
pub trait PreferenceLoss: RlPart {
    /// Computes loss, slopes and rewards of one pair.
    fn value(&self, pair: &PreferencePair) -> PairTerm;
}

/// Implicit reward of the DPO family: beta·(log π − log π_ref), by sum or by mean over tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ImplicitReward {
    pub beta: f64,
    pub reference_free: bool,
    pub length_normalized: bool,
}

impl ImplicitReward {
    /// Returns the reward of an answer, and its derivative by the answer's log-probability.
    fn reward(self, answer: &PairAnswer) -> (f64, f64) {
        let slope = self.beta / if self.length_normalized { answer.tokens.max(1) as f64 } else { 1.0 };
        let reference = if self.reference_free { 0.0 } else { answer.reference };
        (slope * (answer.logprob - reference), slope)
    }
    /// Evaluates a loss of the margin between the rewards of a pair. `loss` returns value and derivative for a margin.
    pub fn pair_term(self, pair: &PreferencePair, loss: impl FnOnce(f64) -> (f64, f64)) -> PairTerm {
        let ((chosen_reward, by_chosen), (rejected_reward, by_rejected)) =
            (self.reward(&pair.chosen), self.reward(&pair.rejected));
        let (loss, slope) = loss(chosen_reward - rejected_reward);
        PairTerm { loss, d_chosen: slope * by_chosen, d_rejected: -slope * by_rejected, chosen_reward, rejected_reward }
    }
}

/// Returns −log σ(margin), without overflow, and its derivative.
pub(crate) fn logistic(margin: f64) -> (f64, f64) {
    ((-margin).max(0.0) + (-margin.abs()).exp().ln_1p(), -1.0 / (1.0 + margin.exp()))
}

/// Checks options that must be positive.
pub(crate) fn positive<const N: usize>(options: [(&str, f64); N]) -> Vec<OptionProblem> {
    options.into_iter().filter_map(|(at, value)| OptionProblem::out_of_range(at, value, above(0.0))).collect()
}

/// Checks a share of incorrect labels, which must be below one half, where labels contain no information.
pub(crate) fn wrong_labels(at: &str, share: f64) -> Option<OptionProblem> {
    OptionProblem::out_of_range(at, share, 0.0..0.5)
}
