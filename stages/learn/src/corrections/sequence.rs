//! Implements `sequence`, one importance weight per sequence, truncated from above.
//!
//! A reward belongs to a sequence, so the exact weight of its gradient is the sequence's, and weights per token are
//! biased. The product over tokens is exact, but its variance grows with length; the geometric mean is biased, but
//! stable.

use super::{Correction, ratio, token_weights};
use crate::batch::TokenGrid;
use crate::part::RlPart;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{OptionProblem, above};

/// Reduction of token ratios to the ratio of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    /// Π_t π_prox/μ.
    #[default]
    Product,
    /// (Π_t π_prox/μ)^(1/n).
    GeometricMean,
}

/// Options of `sequence`: w = min(reduction over tokens of π_prox/μ, cap) for every token of a sequence; no gradient.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SequenceCorrection {
    /// How token ratios become the ratio of a sequence: `product` or `geometric_mean`.
    pub reduction: Reduction,
    /// Largest weight; larger ones are cut to it.
    pub cap: f64,
}

impl Default for SequenceCorrection {
    fn default() -> Self {
        Self { reduction: Reduction::Product, cap: 2.0 }
    }
}

impl PartOptions for SequenceCorrection {
    const KIND: &'static str = "sequence";
    const SUMMARY: &'static str = "one truncated importance weight per sequence";
    const DOC: &'static str = "s = Σ_t (log π_prox − log μ) over the n tokens in the loss, or s/n with\n\
        `reduction: geometric_mean`, clamped to ±20. w = min(exp(s), cap) for every token of the sequence, constant\n\
        in the gradient; the ratio of the loss is π_θ/π_prox.\n\n\
        The product is unbiased below the cap but noisy for long sequences; the geometric mean is biased but stable.\n\
        The objective is that of 2505.24298, with cap 2 as for weights per token.";
    fn check(&self) -> Vec<OptionProblem> {
        OptionProblem::out_of_range("/cap", self.cap, above(0.0)).into_iter().collect()
    }
}

impl RlPart for SequenceCorrection {}

impl Correction for SequenceCorrection {
    fn weights(&self, proximal: &TokenGrid, behavior: &TokenGrid, mask: &[Vec<bool>]) -> TokenGrid {
        let of_sequence: Vec<f64> =
            mask.iter().enumerate().map(|(i, row)| self.weight(&proximal[i], &behavior[i], row)).collect();
        token_weights(mask, |i, _| of_sequence[i])
    }
}

impl SequenceCorrection {
    fn weight(&self, proximal: &[f64], behavior: &[f64], mask: &[bool]) -> f64 {
        let tokens: Vec<usize> = (0..mask.len()).filter(|&t| mask[t]).collect();
        let sum: f64 = tokens.iter().map(|&t| proximal[t] - behavior[t]).sum();
        let log_ratio = match self.reduction {
            Reduction::Product => sum,
            Reduction::GeometricMean => sum / tokens.len().max(1) as f64,
        };
        ratio(log_ratio).min(self.cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corrections::truncated::TruncatedCorrection;

    /// Computes weights for token ratios 3 and 1/2 in the first sequence, 1/4 in the second; masked tokens would change
    /// both.
    fn weights(part: &SequenceCorrection) -> TokenGrid {
        let proximal = vec![vec![3f64.ln(), 9.0, 0.5f64.ln()], vec![-9.0, 0.25f64.ln()]];
        let behavior = vec![vec![0.0; 3], vec![0.0; 2]];
        part.weights(&proximal, &behavior, &[vec![true, false, true], vec![false, true]])
    }
    fn close(have: &TokenGrid, want: [&[f64]; 2]) {
        assert_eq!(have.len(), 2);
        for (h, w) in have.iter().flatten().zip(want.concat()) {
            assert!((h - w).abs() < 1e-12, "{have:?}");
        }
    }

    #[test]
    fn weights_match_hand_computation() {
        close(&weights(&SequenceCorrection::default()), [&[1.5, 0.0, 1.5], &[0.0, 0.25]]);
        close(
            &weights(&SequenceCorrection { cap: 1.2, ..SequenceCorrection::default() }),
            [&[1.2, 0.0, 1.2], &[0.0, 0.25]],
        );
        let mean = 1.5f64.sqrt();
        close(
            &weights(&SequenceCorrection { reduction: Reduction::GeometricMean, cap: 2.0 }),
            [&[mean, 0.0, mean], &[0.0, 0.25]],
        );
    }

    #[test]
    fn single_token_sequences_have_the_tokens_weight() {
        let proximal: TokenGrid = (0..10).map(|n| vec![0.0, (f64::from(n) * 0.9).sin()]).collect();
        let behavior: TokenGrid = vec![vec![0.0, -0.2]; 10];
        let mask = vec![vec![false, true]; 10];
        for reduction in [Reduction::Product, Reduction::GeometricMean] {
            let part = SequenceCorrection { reduction, cap: 1.5 };
            assert_eq!(
                part.weights(&proximal, &behavior, &mask),
                TruncatedCorrection { cap: 1.5 }.weights(&proximal, &behavior, &mask)
            );
        }
    }

    #[test]
    fn long_and_empty_sequences_stay_finite() {
        let part = SequenceCorrection { cap: 1e30, ..SequenceCorrection::default() };
        let weights =
            part.weights(&vec![vec![9.0; 100], vec![]], &vec![vec![0.0; 100], vec![]], &[vec![true; 100], vec![]]);
        assert_eq!((weights[0][0], weights[1].len()), (20f64.exp(), 0));
    }

    #[test]
    fn caps_are_checked() {
        assert!(!SequenceCorrection { cap: -1.0, ..SequenceCorrection::default() }.check().is_empty());
        assert!(!SequenceCorrection { cap: f64::NAN, ..SequenceCorrection::default() }.check().is_empty());
        assert!(SequenceCorrection::default().check().is_empty());
    }
}
