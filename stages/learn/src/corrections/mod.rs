//! Importance weights for samples that come from other weights (stale, foreign, or another kernel's rounding). One file per form; the
//! list is in [`crate::registry`].
//!
//! Why so: with a correction the ratio of the loss is taken against the policy just before this step's updates (π_prox, recomputed
//! by the training forward), and the sampling policy μ enters as a constant weight per token (decoupled objective, 2505.24298).
//! Without one the sampling policy is the denominator itself. Refuses: gradients through the weight.

pub mod masked;
pub mod none;
pub mod sequence;
pub mod truncated;

pub use masked::Masked;
pub use none::None;
pub use sequence::Sequence;
pub use truncated::Truncated;

use crate::batch::Grid;
use crate::part::Part;

/// log π_prox − log μ, of a token or a sequence, is clamped to this before the exponential.
pub const LOG_RATIO_LIMIT: f64 = 20.0;

/// Weights per token, or none if the sampling policy is the ratio's denominator.
pub trait Correction: Part {
    /// `proximal` and `behavior` are logprobs of the shape of `mask`. 0 where it is false.
    fn weights(&self, proximal: &Grid, behavior: &Grid, mask: &[Vec<bool>]) -> Grid;
    /// Whether the proximal logprobs must be computed at all.
    fn recomputes(&self) -> bool {
        true
    }
}

/// exp of a clamped log-ratio.
fn ratio(log_ratio: f64) -> f64 {
    log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
}

/// The weight of every token in the loss by its place (sequence, token), 0 elsewhere.
fn each(mask: &[Vec<bool>], weight: impl Fn(usize, usize) -> f64) -> Grid {
    let row = |(i, row): (usize, &Vec<bool>)| {
        row.iter().enumerate().map(|(t, &m)| if m { weight(i, t) } else { 0.0 }).collect()
    };
    mask.iter().enumerate().map(row).collect()
}
