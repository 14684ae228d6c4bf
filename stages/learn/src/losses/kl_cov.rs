//! Implements `kl_cov` (KL-Cov), a penalty on moving the tokens whose logprob and advantage rise together most.
//!
//! A few tokens of high covariance reduce the policy's entropy. `clip_cov` removes such tokens from the loss; this term
//! penalizes their distance from the sampling policy, so they still learn, but slowly (2505.22617).

use super::clip::Clip;
use super::clip::TokenLoss;
use super::{RatioSums, covariances, ratio, ratio_metrics, share_of};
use crate::batch::LossBatch;
use crate::part::{LossTerm, RlPart, TermScope, TermValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use trainyard_api::PartOptions;
use trainyard_core::{MetricInfo, OptionProblem, Reduce};

/// Loss of tokens that are not penalized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnpenalizedLoss {
    /// Loss of `clip`.
    #[default]
    Clipped,
    /// −ρA, as published.
    Free,
}

/// Options of `kl_cov`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KlCov {
    /// Share of the minibatch's tokens in the loss that is penalized; 0 = none, anything above = at least one token.
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
    /// Weight of the penalty.
    #[schemars(range(min = 0))]
    pub coefficient: f64,
    /// Loss of the other tokens: `clipped` or `free` (as published).
    pub others: UnpenalizedLoss,
    /// With `others: clipped`, the ratio is at least 1 − clip_low.
    #[schemars(range(min = 0, max = 1))]
    pub clip_low: f64,
    /// With `others: clipped`, the ratio is at most 1 + clip_high.
    #[schemars(range(min = 0))]
    pub clip_high: f64,
}

impl Default for KlCov {
    fn default() -> Self {
        Self { share: 2e-4, coefficient: 0.1, others: UnpenalizedLoss::Clipped, clip_low: 0.2, clip_high: 0.28 }
    }
}

impl PartOptions for KlCov {
    const KIND: &'static str = "kl_cov";
    const SUMMARY: &'static str = "penalty on moving the tokens of highest covariance (KL-Cov)";
    const DOC: &'static str = "The max(⌊share·N⌋, 1) of the minibatch's N tokens with the largest covariance (A\n\
        − mean A)·(logπ − mean logπ), earlier ones first among equals, have the loss −ρA +\n\
        coefficient·|logπ − logπ_old|, unclipped. All others have that of `clip` (`others: clipped`) or −ρA\n\
        (`others: free`, the published form, which has no clip at all). Means are over the N tokens; logπ is\n\
        current. Where logπ has not moved, the penalty's gradient is 0. Source: 2505.22617 (share 2e-4; coefficient\n\
        1 in the paper, 0.1 in common use).";
    fn metrics() -> Vec<MetricInfo> {
        [
            ratio_metrics(),
            vec![
                MetricInfo::new("penalized", "share", "Share of tokens with a penalty for their covariance.")
                    .reduced_by(Reduce::LastTenth)
                    .optional()
                    .former_name("kl_cov_fraction"),
            ],
        ]
        .concat()
    }
    fn check(&self) -> Vec<OptionProblem> {
        let mut problems = super::bounds(self.clip_low, self.clip_high);
        problems.extend(OptionProblem::out_of_range("/share", self.share, 0.0..=1.0));
        problems.extend(OptionProblem::out_of_range("/coefficient", self.coefficient, 0.0..));
        problems
    }
}

impl RlPart for KlCov {}

impl LossTerm for KlCov {
    fn value(&self, b: &LossBatch) -> TermValue {
        let clip = Clip { clip_low: self.clip_low, clip_high: self.clip_high, dual_clip: None };
        let penalized = self.penalized(b);
        let mut term = TermValue { d_logprobs: b.zeros(), ..TermValue::default() };
        let mut sums = RatioSums::default();
        for (i, t) in b.places() {
            let log_ratio = b.logprobs[i][t] - b.old_logprobs[i][t];
            let (rho, slope) = ratio(log_ratio);
            let advantage = b.advantages[i][t];
            let free = TokenLoss { loss: -rho * advantage, gradient: -slope * advantage, clipped: false };
            let token = if penalized.contains(&(i, t)) {
                let side = if log_ratio == 0.0 { 0.0 } else { log_ratio.signum() };
                TokenLoss {
                    loss: free.loss + self.coefficient * log_ratio.abs(),
                    gradient: free.gradient + self.coefficient * side,
                    clipped: false,
                }
            } else if self.others == UnpenalizedLoss::Free {
                free
            } else {
                clip.token(log_ratio, advantage)
            };
            let weight = b.weights[i][t] * b.importance(i, t);
            term.loss += weight * token.loss;
            term.d_logprobs[i][t] = weight * token.gradient;
            sums.add(rho, token.clipped);
        }
        term.sums = sums.named();
        term.sums.push(("penalized", penalized.len() as f64));
        term
    }
    fn scope(&self) -> TermScope {
        TermScope::Minibatch
    }
}

impl KlCov {
    /// Returns the positions of the penalized tokens.
    fn penalized(&self, b: &LossBatch) -> BTreeSet<(usize, usize)> {
        let mut tokens = covariances(b);
        let count = share_of(self.share, tokens.len());
        tokens.sort_by(|a, b| b.2.total_cmp(&a.2));
        tokens.truncate(count);
        tokens.into_iter().map(|(i, t, _)| (i, t)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::losses::differences::{assert_gradients, batch};

    /// Returns tokens with covariances 2, 0 and 1; the first token's ratio is e^0.5, above the bound of `clip`.
    fn three() -> LossBatch {
        LossBatch {
            mask: vec![vec![true; 3]],
            logprobs: vec![vec![-1.0, -2.0, -3.0]],
            old_logprobs: vec![vec![-1.5, -2.0, -3.0]],
            advantages: vec![vec![3.0, 0.0, 0.0]],
            weights: vec![vec![1.0; 3]],
            ..LossBatch::default()
        }
    }

    #[test]
    fn token_of_highest_covariance_is_penalized_and_not_clipped() {
        let b = three();
        let term = KlCov { share: 0.4, ..KlCov::default() }.value(&b);
        assert!((term.loss - (-3.0 * 0.5f64.exp() + 0.05)).abs() < 1e-12);
        assert!((term.d_logprobs[0][0] - (-3.0 * 0.5f64.exp() + 0.1)).abs() < 1e-12);
        assert_eq!((&term.d_logprobs[0][1..], term.sums[2]), (&[0.0, 0.0][..], ("penalized", 1.0)));
        let clipped = KlCov { share: 0.0, ..KlCov::default() }.value(&b);
        assert!((clipped.loss + 3.0 * 1.28).abs() < 1e-12 && clipped.d_logprobs[0][0] == 0.0);
        let free = KlCov { share: 0.0, others: UnpenalizedLoss::Free, ..KlCov::default() }.value(&b);
        assert!((free.d_logprobs[0][0] + 3.0 * 0.5f64.exp()).abs() < 1e-12);
    }

    #[test]
    fn penalty_pulls_back_from_either_side() {
        let mut b = three();
        b.advantages = vec![vec![0.0; 3]];
        b.old_logprobs = vec![vec![-1.5, -1.5, -3.0]];
        let term = KlCov { share: 1.0, ..KlCov::default() }.value(&b);
        assert_eq!(term.d_logprobs, [[0.1, -0.1, 0.0]]);
        assert!((term.loss - 0.1).abs() < 1e-12, "0.1·(0.5 + 0.5)");
    }

    #[test]
    fn share_zero_equals_clip() {
        for seed in 0..5 {
            let (plain, term) =
                (Clip::default().value(&batch(seed)), KlCov { share: 0.0, ..KlCov::default() }.value(&batch(seed)));
            assert_eq!((plain.loss, &plain.d_logprobs), (term.loss, &term.d_logprobs));
        }
    }

    #[test]
    fn gradients_are_finite_differences() {
        for (seed, others) in [(1, UnpenalizedLoss::Clipped), (2, UnpenalizedLoss::Free), (3, UnpenalizedLoss::Clipped)]
        {
            let part = KlCov { share: 0.3, coefficient: 0.7, others, ..KlCov::default() };
            assert_gradients(&part, &batch(seed));
            assert_gradients(&part, &LossBatch { correction: Some(batch(9).advantages), ..batch(seed) });
        }
    }

    #[test]
    fn options_are_checked() {
        assert!(KlCov::default().check().is_empty());
        assert!(!KlCov { coefficient: -0.1, ..KlCov::default() }.check().is_empty());
        assert!(!KlCov { share: f64::NAN, ..KlCov::default() }.check().is_empty());
        assert!(!KlCov { clip_high: -1.0, ..KlCov::default() }.check().is_empty());
    }
}
