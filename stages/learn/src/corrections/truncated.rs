//! Implements `truncated`, importance weights per token, truncated from above. Without the cap, a token with a much
//! higher probability under the current policy than under the sampling policy would dominate its batch. The cap reduces
//! this variance and adds bias (2505.24298).

use super::{Correction, ratio, token_weights};
use crate::batch::TokenGrid;
use crate::part::RlPart;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{OptionProblem, above};

/// Options of `truncated`: w = min(π_prox/μ, cap) per token; no gradient.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TruncatedCorrection {
    /// Largest weight; larger ones are cut to it.
    pub cap: f64,
}

impl Default for TruncatedCorrection {
    fn default() -> Self {
        Self { cap: 2.0 }
    }
}

impl PartOptions for TruncatedCorrection {
    const KIND: &'static str = "truncated";
    const SUMMARY: &'static str = "truncated importance weights per token";
    const DOC: &'static str = "w_t = min(exp(log π_prox − log μ), cap), with the log-ratio clamped to ±20,\n\
        constant in the gradient; the ratio of the loss is π_θ/π_prox. Cap 2 as in published runs. Source:\n\
        decoupled objective, 2505.24298.";
    fn check(&self) -> Vec<OptionProblem> {
        OptionProblem::out_of_range("/cap", self.cap, above(0.0)).into_iter().collect()
    }
}

impl RlPart for TruncatedCorrection {}

impl Correction for TruncatedCorrection {
    fn weights(&self, proximal: &TokenGrid, behavior: &TokenGrid, mask: &[Vec<bool>]) -> TokenGrid {
        token_weights(mask, |i, t| ratio(proximal[i][t] - behavior[i][t]).min(self.cap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_truncated_from_above_only() {
        let mask = vec![vec![true, true, false]];
        let proximal = vec![vec![-1.0, -3.0, 0.0]];
        let behavior = vec![vec![-3.0, -1.0, 0.0]];
        let w = TruncatedCorrection::default().weights(&proximal, &behavior, &mask);
        assert_eq!(w[0][0], 2.0);
        assert!((w[0][1] - (-2.0f64).exp()).abs() < 1e-15);
        assert_eq!(w[0][2], 0.0);
        assert!(TruncatedCorrection::default().recomputes());
    }

    #[test]
    fn caps_are_checked() {
        assert!(!TruncatedCorrection { cap: 0.0 }.check().is_empty());
        assert!(!TruncatedCorrection { cap: f64::NAN }.check().is_empty());
        assert!(TruncatedCorrection { cap: 1.0 }.check().is_empty());
    }
}
