//! Implements corrections, importance weights for samples from other weights (stale, foreign, or differently rounded).
//!
//! With a correction, the denominator of the loss's ratio is the policy just before this step's updates (π_prox,
//! recomputed by the training forward), and the sampling policy μ enters through a constant weight per token (decoupled
//! objective, 2505.24298). Without a correction, the sampling policy is the denominator.

pub mod masked;
pub mod none;
pub mod sequence;
pub mod truncated;

use crate::batch::TokenGrid;
use crate::part::RlPart;

/// Limit of |log π_prox − log μ| of a token or sequence; larger values are clamped before the exponential.
pub const LOG_RATIO_LIMIT: f64 = 20.0;

/// Computes importance weights per token.
pub trait Correction: RlPart {
    /// Returns the weights. `proximal` and `behavior` are the logprobs under π_prox and μ in the shape of `mask`; the
    /// weights are 0 where the mask is false.
    fn weights(&self, proximal: &TokenGrid, behavior: &TokenGrid, mask: &[Vec<bool>]) -> TokenGrid;
    /// Returns whether the proximal logprobs must be recomputed.
    fn recomputes(&self) -> bool {
        true
    }
}

/// Returns exp of the clamped log-ratio.
fn ratio(log_ratio: f64) -> f64 {
    log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
}

/// Returns weights in the shape of `mask` from the weight of each (sequence, token) in the loss; 0 elsewhere.
fn token_weights(mask: &[Vec<bool>], weight: impl Fn(usize, usize) -> f64) -> TokenGrid {
    let row = |(i, row): (usize, &Vec<bool>)| {
        row.iter().enumerate().map(|(t, &m)| if m { weight(i, t) } else { 0.0 }).collect()
    };
    mask.iter().enumerate().map(row).collect()
}
