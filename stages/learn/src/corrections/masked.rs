//! Implements `masked` (IcePop), importance weights per token that are 0 outside a band.
//!
//! If training and sampling disagree by a large factor in either direction, the gradient of the token is noise. A cap
//! would keep the noise at the cap's size; a mask removes it (2512.16144, first in the reports of the Ring models).

use super::{Correction, ratio, token_weights};
use crate::batch::TokenGrid;
use crate::part::RlPart;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// Options of `masked`: w = π_prox/μ per token if it is within low..=high, else 0; no gradient.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MaskedCorrection {
    /// Smallest weight kept; at most 1.
    #[schemars(range(min = 0, max = 1))]
    pub low: f64,
    /// Largest weight kept; at least 1.
    #[schemars(range(min = 1))]
    pub high: f64,
}

impl Default for MaskedCorrection {
    fn default() -> Self {
        Self { low: 0.5, high: 5.0 }
    }
}

impl PartOptions for MaskedCorrection {
    const KIND: &'static str = "masked";
    const SUMMARY: &'static str = "importance weights per token, 0 outside a band (IcePop)";
    const DOC: &'static str = "k_t = exp(log π_prox − log μ), with the log-ratio clamped to ±20. w_t = k_t if\n\
        low ≤ k_t ≤ high, else 0, constant in the gradient; the ratio of the loss is π_θ/π_prox. The\n\
        aggregation still counts masked tokens. The band must contain 1. Source: 2512.16144 (low 0.5, high 5).";
    fn check(&self) -> Vec<OptionProblem> {
        let problems = [
            OptionProblem::out_of_range("/low", self.low, 0.0..=1.0),
            OptionProblem::out_of_range("/high", self.high, 1.0..),
        ];
        problems.into_iter().flatten().collect()
    }
}

impl RlPart for MaskedCorrection {}

impl Correction for MaskedCorrection {
    fn weights(&self, proximal: &TokenGrid, behavior: &TokenGrid, mask: &[Vec<bool>]) -> TokenGrid {
        token_weights(mask, |i, t| {
            let weight = ratio(proximal[i][t] - behavior[i][t]);
            if (self.low..=self.high).contains(&weight) { weight } else { 0.0 }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corrections::truncated::TruncatedCorrection;

    #[test]
    fn weight_is_zero_outside_the_band() {
        let ratios: [f64; 6] = [0.49, 0.51, 1.0, 4.9, 5.1, 1.0];
        let proximal = vec![ratios.iter().map(|r| r.ln()).collect()];
        let mask = vec![vec![true, true, true, true, true, false]];
        let weights = MaskedCorrection::default().weights(&proximal, &vec![vec![0.0; 6]], &mask);
        for (have, want) in weights[0].iter().zip([0.0, 0.51, 1.0, 4.9, 0.0, 0.0]) {
            assert!((have - want).abs() < 1e-12, "{have} {want}");
        }
    }

    /// Inside the band the weight is the ratio itself, which a cap above the band would not change either.
    #[test]
    fn weight_is_the_truncated_one_inside_the_band() {
        fn grid(f: fn(f64) -> f64) -> TokenGrid {
            vec![(0..40).map(|n| f(f64::from(n))).collect()]
        }
        let (proximal, behavior) = (grid(|n| (n * 1.3).sin() - 2.0), grid(|n| (n * 0.7).cos() - 2.0));
        let mask = vec![vec![true; 40]];
        let (masked, truncated) = (MaskedCorrection::default(), TruncatedCorrection { cap: 5.0 });
        let (have, plain) =
            (masked.weights(&proximal, &behavior, &mask), truncated.weights(&proximal, &behavior, &mask));
        let dropped = have[0]
            .iter()
            .zip(&plain[0])
            .filter(|(h, _)| **h == 0.0)
            .inspect(|(_, p)| assert!(**p < 0.5 || **p >= 5.0))
            .count();
        assert!(dropped > 0 && dropped < 40);
        assert!(have[0].iter().zip(&plain[0]).all(|(h, p)| *h == 0.0 || h == p));
    }

    #[test]
    fn band_must_contain_one() {
        assert!(MaskedCorrection::default().check().is_empty());
        for (low, high) in [(1.1, 5.0), (0.5, 0.9), (-0.1, 5.0), (0.5, f64::NAN)] {
            assert!(!MaskedCorrection { low, high }.check().is_empty());
        }
    }
}
