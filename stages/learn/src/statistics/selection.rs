//! Computes best-of-k, the expected correctness of the sample that a scorer (such as a process reward model) ranks
//! first.
//!
//! A reduction combines step scores to one score per sample; the best reduction depends on the training of the scorer.
//! The expectation over all k-subsets of n scored samples is exact: with scores ascending, the group of equal scores on
//! ranks l+1..h is on top with probability [C(h,k) − C(l,k)] / C(n,k), and within it every sample is equally likely.
//! NaN scores give `None`, so callers leave out unscored samples and report their number.

use super::mean;
use serde::{Deserialize, Serialize};

/// Reduction of the scores of a sample's steps to one score.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepReduction {
    /// Score of the weakest step.
    Min,
    /// Product of all steps.
    Product,
    /// Score of the last step (an outcome score).
    #[default]
    Last,
    /// Mean of all steps.
    Mean,
}

impl StepReduction {
    pub const ALL: [Self; 4] = [Self::Min, Self::Product, Self::Last, Self::Mean];
    /// Returns the name in options and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Min => "min",
            Self::Product => "product",
            Self::Last => "last",
            Self::Mean => "mean",
        }
    }
    /// Returns the score of a sample; `None` without steps.
    pub fn reduce(self, steps: &[f64]) -> Option<f64> {
        let last = *steps.last()?;
        Some(match self {
            Self::Min => steps.iter().copied().fold(f64::INFINITY, f64::min),
            Self::Product => steps.iter().product(),
            Self::Last => last,
            Self::Mean => mean(steps)?,
        })
    }
}

/// Returns the expected correctness of the best-scored of all samples, with ties broken uniformly. `None` without
/// samples or with a NaN score.
///
/// # Panics
/// If the lengths differ.
pub fn best_of(scores: &[f64], correct: &[f64]) -> Option<f64> {
    best_at_k(scores, correct, scores.len())
}

/// Returns the expected correctness of the best-scored of k samples drawn without replacement, with ties broken
/// uniformly. `None` if k = 0, k > n or a score is NaN.
///
/// # Panics
/// If the lengths differ.
pub fn best_at_k(scores: &[f64], correct: &[f64], k: usize) -> Option<f64> {
    assert_eq!(scores.len(), correct.len(), "one score per sample");
    let n = scores.len();
    if k == 0 || k > n || scores.iter().any(|s| s.is_nan()) {
        return None;
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| scores[*a].total_cmp(&scores[*b]).then(a.cmp(b)));
    let mut value = 0.0;
    let mut low = 0;
    while low < n {
        let score = scores[order[low]];
        // `==` rather than `total_cmp`: −0 and 0 are equal scores.
        let high = low + order[low..].iter().take_while(|i| scores[**i] == score).count();
        let chance = share(high, n, k) - share(low, n, k);
        let right = order[low..high].iter().map(|i| correct[*i]).sum::<f64>() / (high - low) as f64;
        value += chance * right;
        low = high;
    }
    Some(value)
}

/// Returns C(m, k) / C(n, k) for m ≤ n.
fn share(m: usize, n: usize, k: usize) -> f64 {
    if m < k { 0.0 } else { (0..k).map(|i| (m - i) as f64 / (n - i) as f64).product() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::pass_at_k;

    #[test]
    fn top_score_decides_and_ties_share() {
        assert_eq!(best_of(&[0.1, 0.9, 0.5], &[0.0, 1.0, 0.0]), Some(1.0));
        assert_eq!(best_of(&[0.9, 0.9, 0.5], &[0.0, 1.0, 1.0]), Some(0.5));
        assert_eq!(best_of(&[0.0, -0.0], &[1.0, 0.0]), Some(0.5));
        assert_eq!((best_of(&[], &[]), best_of(&[f64::NAN], &[1.0])), (None, None));
    }

    #[test]
    fn best_of_two_matches_hand_computation() {
        // Ranks 1, 2, 3 are correct, incorrect, correct; pairs {1,2}→incorrect, {1,3}→correct, {2,3}→correct.
        assert!((best_at_k(&[1.0, 2.0, 3.0], &[1.0, 0.0, 1.0], 2).unwrap() - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn constant_scorer_gives_the_mean_and_an_oracle_pass_at_k() {
        let correct = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0];
        for k in 1..=6 {
            assert!((best_at_k(&[0.5; 6], &correct, k).unwrap() - 1.0 / 3.0).abs() < 1e-12);
            assert!((best_at_k(&correct, &correct, k).unwrap() - pass_at_k(6, 2, k).unwrap()).abs() < 1e-12);
        }
    }

    #[test]
    fn reductions() {
        let steps = [0.5, 0.2, 0.8];
        let all: Vec<f64> = StepReduction::ALL.iter().map(|r| r.reduce(&steps).unwrap()).collect();
        assert!(
            (all[0] - 0.2).abs() < 1e-12
                && (all[1] - 0.08).abs() < 1e-12
                && (all[2] - 0.8).abs() < 1e-12
                && (all[3] - 0.5).abs() < 1e-12
        );
        assert_eq!(StepReduction::Min.reduce(&[]), None);
    }
}
