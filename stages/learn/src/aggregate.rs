//! Aggregates token losses to one loss.
//!
//! Every form in use is linear in the token losses, so it is one weight per token. Weights are computed once for the
//! whole minibatch, before it is cut into micro-batches, so micro-batches do not change the loss.

use crate::batch::TokenGrid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Term added to a sequence's token count in `sequence_mean_token_mean`.
pub const EPSILON: f64 = 1e-8;

/// Reduction of token losses to one loss. n_i = tokens in the loss of sequence i, B = number of sequences with n_i > 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Aggregate {
    /// Σ loss / Σ n_i: every token counts equally (DAPO, 2503.14476).
    #[default]
    TokenMean,
    /// Σ_i (Σ_t loss) / B.
    SequenceMeanTokenSum,
    /// Σ_i (Σ_t loss / (n_i + 1e-8)) / B: every sequence counts equally (GRPO, 2402.03300).
    SequenceMeanTokenMean,
    /// Σ loss / (T·B), with T = the longest row or the given horizon (Dr.GRPO, 2503.20783).
    SequenceMeanTokenSumNorm,
}

impl Aggregate {
    /// Returns weights in the shape of `mask`, 0 where it is false. `horizon` replaces the length of the longest
    /// sequence as T.
    pub fn weights(self, mask: &[Vec<bool>], horizon: Option<usize>) -> TokenGrid {
        let counts: Vec<f64> = mask.iter().map(|row| row.iter().filter(|m| **m).count() as f64).collect();
        let tokens: f64 = counts.iter().sum();
        let sequences = counts.iter().filter(|n| **n > 0.0).count() as f64;
        let longest = horizon.unwrap_or_else(|| mask.iter().map(Vec::len).max().unwrap_or(0)) as f64;
        let weight = |n: f64| match self {
            Self::TokenMean => 1.0 / tokens,
            Self::SequenceMeanTokenSum => 1.0 / sequences,
            Self::SequenceMeanTokenMean => 1.0 / ((n + EPSILON) * sequences),
            Self::SequenceMeanTokenSumNorm => 1.0 / (longest * sequences),
        };
        mask.iter()
            .zip(&counts)
            .map(|(row, &n)| row.iter().map(|&m| if m { weight(n) } else { 0.0 }).collect())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: Aggregate, horizon: Option<usize>) -> f64 {
        let mask = vec![vec![true, true, false, true], vec![false, true], vec![false, false]];
        a.weights(&mask, horizon).iter().flatten().sum()
    }

    #[test]
    fn weights_match_hand_computation() {
        assert!((sum(Aggregate::TokenMean, None) - 1.0).abs() < 1e-12);
        assert!((sum(Aggregate::SequenceMeanTokenSum, None) - 2.0).abs() < 1e-12);
        assert!((sum(Aggregate::SequenceMeanTokenMean, None) - 1.0).abs() < 1e-7);
        assert!((sum(Aggregate::SequenceMeanTokenSumNorm, None) - 4.0 / 8.0).abs() < 1e-12);
        assert!((sum(Aggregate::SequenceMeanTokenSumNorm, Some(10)) - 4.0 / 20.0).abs() < 1e-12);
    }

    #[test]
    fn batch_without_tokens_has_zero_weights() {
        assert_eq!(Aggregate::TokenMean.weights(&[vec![false, false]], None), vec![vec![0.0, 0.0]]);
    }
}
