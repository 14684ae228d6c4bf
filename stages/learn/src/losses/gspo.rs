//! Implements `gspo`, the clipped loss with one length-normalized ratio per sequence (2507.18071), because rewards are
//! given to sequences. Each token keeps its own advantage and gradient (the form GSPO-token), which makes no difference
//! if all tokens have the same advantage. Exactly at a bound the gradient passes.

use super::{RatioSums, ratio_metrics};
use crate::aggregate::EPSILON;
use crate::batch::LossBatch;
use crate::part::{LossTerm, RlPart, TermValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{MetricInfo, OptionProblem};

/// Limit of the mean log-ratio of a sequence before the exponential; beyond it the gradient is 0.
pub const LOG_RATIO_LIMIT: f64 = 10.0;

/// Options of `gspo`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Gspo {
    /// The sequence's ratio is at least 1 − clip_low.
    #[schemars(range(min = 0, max = 1))]
    pub clip_low: f64,
    /// The sequence's ratio is at most 1 + clip_high.
    #[schemars(range(min = 0))]
    pub clip_high: f64,
}

impl Default for Gspo {
    fn default() -> Self {
        Self { clip_low: 3e-4, clip_high: 4e-4 }
    }
}

impl PartOptions for Gspo {
    const KIND: &'static str = "gspo";
    const SUMMARY: &'static str = "clipped ratio of whole sequences (GSPO)";
    const DOC: &'static str = "s = exp(Σ_t (logπ − logπ_old) / (n + 1e-8)) over the n tokens in the loss, with a\n\
        mean log-ratio of at most 10. Token loss = max(−sA, −clip(s, 1−clip_low, 1+clip_high)A); its gradient\n\
        by the token's logprob is −sA where it is not clipped (GSPO-token). Multiplied by the importance weight of\n\
        a correction, if any. Use it with `aggregate: sequence_mean_token_mean`. Source: 2507.18071 (bounds 3e-4 and\n\
        4e-4).";
    fn metrics() -> Vec<MetricInfo> {
        ratio_metrics()
    }
    fn check(&self) -> Vec<OptionProblem> {
        super::bounds(self.clip_low, self.clip_high)
    }
}

impl RlPart for Gspo {}

impl LossTerm for Gspo {
    fn value(&self, b: &LossBatch) -> TermValue {
        let mut term = TermValue { d_logprobs: b.zeros(), ..TermValue::default() };
        let mut sums = RatioSums::default();
        for (i, row) in b.mask.iter().enumerate() {
            let log_ratio = |t: usize| b.logprobs[i][t] - b.old_logprobs[i][t];
            let tokens: Vec<usize> = (0..row.len()).filter(|&t| row[t]).collect();
            let mean = tokens.iter().map(|&t| log_ratio(t)).sum::<f64>() / (tokens.len() as f64 + EPSILON);
            let s = mean.min(LOG_RATIO_LIMIT).exp();
            let slope = if mean <= LOG_RATIO_LIMIT { s } else { 0.0 };
            let bounded = s.clamp(1.0 - self.clip_low, 1.0 + self.clip_high);
            for t in tokens {
                let advantage = b.advantages[i][t];
                let weight = b.weights[i][t] * b.importance(i, t);
                let (free, held) = (-s * advantage, -bounded * advantage);
                if held <= free {
                    term.d_logprobs[i][t] = -weight * slope * advantage;
                }
                term.loss += weight * free.max(held);
                sums.add(s, held > free);
            }
        }
        term.sums = sums.named();
        term
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::Aggregate;
    use crate::losses::differences::{assert_gradients, batch};

    /// Returns two tokens with these log-ratios and one advantage.
    fn pair(ratios: [f64; 2], advantage: f64) -> LossBatch {
        let mask = vec![vec![true, true]];
        LossBatch {
            logprobs: vec![ratios.map(|r| r - 1.0).to_vec()],
            old_logprobs: vec![vec![-1.0; 2]],
            advantages: vec![vec![advantage; 2]],
            weights: Aggregate::SequenceMeanTokenSum.weights(&mask, None),
            mask,
            ..LossBatch::default()
        }
    }

    #[test]
    fn ratio_is_the_geometric_mean() {
        let part = Gspo { clip_low: 0.5, clip_high: 0.5 };
        // Token ratios 2 and 1/2: both tokens have moved, the sequence has not.
        let even = part.value(&pair([2f64.ln(), -(2f64.ln())], 3.0));
        assert!((even.loss + 6.0).abs() < 1e-7 && (even.d_logprobs[0][0] + 3.0).abs() < 1e-7);
        let high = part.value(&pair([4f64.ln(), 4f64.ln()], 1.0));
        assert!((high.loss + 3.0).abs() < 1e-7, "clipped to 1.5 for each of two tokens");
        assert_eq!((high.d_logprobs[0][0], high.sums[0]), (0.0, ("fraction", 2.0)));
    }

    #[test]
    fn gradients_are_finite_differences_with_one_advantage_per_sequence() {
        let mut b = batch(6);
        for (row, mask) in b.advantages.iter_mut().zip(&b.mask) {
            let first = row[0];
            row.iter_mut().zip(mask).for_each(|(a, m)| *a = if *m { first } else { 0.0 });
        }
        assert_gradients(&Gspo { clip_low: 0.9, clip_high: 5.0 }, &b);
    }
}
