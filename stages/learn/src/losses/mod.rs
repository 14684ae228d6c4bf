//! Implements loss terms, pure functions of current logprobs, entropies and values that return their own gradient.
//!
//! The trainer backpropagates Σ stop_gradient(d/dlogprob)·logprob + …, so no term needs a tensor. The tests compare
//! every term with finite differences (`differences`).

pub mod cispo;
pub mod clip;
pub mod clip_balanced;
pub mod clip_cov;
#[cfg(test)]
pub mod differences;
pub mod dpo;
pub mod entropy;
pub mod entropy_smoothing;
pub mod geo_mean;
pub mod gspo;
pub mod kl;
pub mod kl_cov;
pub mod nft;
pub mod value;

use crate::batch::{LossBatch, TokenGrid};
use trainyard_core::{MetricInfo, OptionProblem, Reduce};

/// Limit of |log-ratio|; larger values are clamped before the exponential, and their gradient is 0.
pub const LOG_RATIO_LIMIT: f64 = 20.0;

/// Returns exp of the clamped log-ratio, and its derivative.
pub(crate) fn ratio(log_ratio: f64) -> (f64, f64) {
    let value = log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp();
    (value, if log_ratio.abs() <= LOG_RATIO_LIMIT { value } else { 0.0 })
}

/// Checks clip bounds around a ratio of 1.
pub(crate) fn bounds(low: f64, high: f64) -> Vec<OptionProblem> {
    let problems = [
        OptionProblem::out_of_range("/clip_low", low, 0.0..=1.0),
        OptionProblem::out_of_range("/clip_high", high, 0.0..),
    ];
    problems.into_iter().flatten().collect()
}

/// Computes the covariance of advantage and logprob of each token in the loss, with the current logπ and means over
/// these tokens: (A − mean A)·(logπ − mean logπ) (2505.22617). Returns (sequence, token, covariance) in index order.
pub(crate) fn covariances(b: &LossBatch) -> Vec<(usize, usize, f64)> {
    let tokens = b.places().count().max(1) as f64;
    let mean = |grid: &TokenGrid| b.places().map(|(i, t)| grid[i][t]).sum::<f64>() / tokens;
    let (advantage, logprob) = (mean(&b.advantages), mean(&b.logprobs));
    b.places().map(|(i, t)| (i, t, (b.advantages[i][t] - advantage) * (b.logprobs[i][t] - logprob))).collect()
}

/// Returns `share` of `tokens`, rounded down, but at least one unless the share is 0.
pub(crate) fn share_of(share: f64, tokens: usize) -> usize {
    if share > 0.0 { ((share * tokens as f64) as usize).max(1) } else { 0 }
}

/// Declares the metrics of every loss on ratios.
pub(crate) fn ratio_metrics() -> Vec<MetricInfo> {
    let fraction = MetricInfo::new("fraction", "share", "Share of tokens in the loss that the clip acts on.")
        .former_name("clip_fraction");
    let ratio =
        MetricInfo::new("ratio", "ratio", "Mean ratio of the probabilities of both policies, as the loss uses it.")
            .former_name("ratio");
    [fraction, ratio].map(|metric| metric.reduced_by(Reduce::LastTenth).optional()).into()
}

/// Sums, over the tokens in the loss, the k3 estimate of the divergence from the policy before the update.
pub fn divergence(b: &LossBatch) -> f64 {
    b.places()
        .map(|(i, t)| {
            let log_ratio = b.logprobs[i][t] - b.old_logprobs[i][t];
            ratio(log_ratio).0 - 1.0 - log_ratio
        })
        .sum()
}

/// Sums for the metrics of [`ratio_metrics`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RatioSums {
    clipped: f64,
    ratios: f64,
}

impl RatioSums {
    /// Adds one token: the ratio that its loss used, and whether the clip changed it.
    pub fn add(&mut self, used: f64, clipped: bool) {
        self.clipped += f64::from(u8::from(clipped));
        self.ratios += used;
    }
    /// Returns the sums by metric name, in the form of [`crate::TermValue::sums`].
    pub fn named(self) -> Vec<(&'static str, f64)> {
        vec![("fraction", self.clipped), ("ratio", self.ratios)]
    }
}
