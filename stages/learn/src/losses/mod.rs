//! Loss terms: pure functions of current logprobs, entropies and values that return their own gradient. One file per term; the
//! list is in [`crate::registry`].
//!
//! Why so: the trainer backpropagates Σ stop_gradient(d/dlogprob)·logprob + …, so no term needs a tensor, and every one is held to
//! its finite differences by [`crate::losses::differences`].

pub mod clip;
#[cfg(test)]
pub mod differences;
pub mod entropy;
pub mod kl;

pub use clip::Clip;
pub use entropy::Entropy;
pub use kl::Kl;

/// Log-ratios are clamped to this before the exponential; beyond it the gradient is 0.
pub const LOG_RATIO_LIMIT: f64 = 20.0;

/// exp of a clamped log-ratio, and its derivative.
pub(crate) fn ratio(log_ratio: f64) -> (f64, f64) {
    let value = log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp();
    (value, if log_ratio.abs() <= LOG_RATIO_LIMIT { value } else { 0.0 })
}
