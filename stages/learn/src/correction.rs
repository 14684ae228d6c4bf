//! Importance weights for samples that come from other weights (stale, foreign, or another kernel's rounding).
//!
//! Why so: with a correction the ratio of the loss is taken against the policy just before this step's updates (π_prox, recomputed
//! by the training forward), and the sampling policy μ enters as a constant weight per token (decoupled objective, 2505.24298).
//! Without one the sampling policy is the denominator itself. Refuses: gradients through the weight.

use crate::batch::Grid;
use crate::part::Part;
use crate::registry::Options;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::{Error, Result};

/// Weights per token, or none if the sampling policy is the ratio's denominator.
pub trait Correction: Part {
    /// `proximal` and `behavior` are logprobs of the shape of `mask`.
    fn weights(&self, proximal: &Grid, behavior: &Grid, mask: &[Vec<bool>]) -> Grid;
    /// Whether the proximal logprobs must be computed at all.
    fn recomputes(&self) -> bool {
        true
    }
}

/// No correction: ratio = π_θ/μ, weight 1.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct None {}

/// w = min(π_prox/μ, cap) per token, no gradient.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Truncated {
    /// Largest weight.
    pub cap: f64,
}

impl Default for Truncated {
    fn default() -> Self {
        Self { cap: 2.0 }
    }
}

impl Options for None {
    const KIND: &'static str = "none";
    const SUMMARY: &'static str = "ratio against the sampling policy, weight 1";
    const DOC: &'static str = "ratio = π_θ/μ. Right for fresh samples of the same weights.";
}

impl Options for Truncated {
    const KIND: &'static str = "truncated";
    const SUMMARY: &'static str = "truncated importance weights per token";
    const DOC: &'static str = "w_t = min(exp(log π_prox − log μ), cap), constant in the gradient; ratio = π_θ/π_prox. cap 2 as in published runs.\n\
        Source: decoupled objective 2505.24298. The log-ratio is clamped to ±20.";
    fn check(&self) -> Result<()> {
        if self.cap > 0.0 { Ok(()) } else { Err(Error::invalid(format!("`cap` is {}, but must be above 0", self.cap))) }
    }
}

impl Part for None {}
impl Part for Truncated {}

impl Correction for None {
    fn weights(&self, _proximal: &Grid, _behavior: &Grid, mask: &[Vec<bool>]) -> Grid {
        mask.iter().map(|row| row.iter().map(|&m| f64::from(m)).collect()).collect()
    }
    fn recomputes(&self) -> bool {
        false
    }
}

impl Correction for Truncated {
    fn weights(&self, proximal: &Grid, behavior: &Grid, mask: &[Vec<bool>]) -> Grid {
        let weight = |i: usize, t: usize| (proximal[i][t] - behavior[i][t]).clamp(-20.0, 20.0).exp().min(self.cap);
        mask.iter().enumerate().map(|(i, row)| row.iter().enumerate().map(|(t, &m)| if m { weight(i, t) } else { 0.0 }).collect()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_truncated_above_only() {
        let mask = vec![vec![true, true, false]];
        let proximal = vec![vec![-1.0, -3.0, 0.0]];
        let behavior = vec![vec![-3.0, -1.0, 0.0]];
        let w = Truncated::default().weights(&proximal, &behavior, &mask);
        assert_eq!(w[0][0], 2.0);
        assert!((w[0][1] - (-2.0f64).exp()).abs() < 1e-15);
        assert_eq!(w[0][2], 0.0);
        assert_eq!(None {}.weights(&proximal, &behavior, &mask), vec![vec![1.0, 1.0, 0.0]]);
    }
}
