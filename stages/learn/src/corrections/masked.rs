//! Importance weights per token, 0 outside a band: masked importance sampling (IcePop).
//!
//! Why so: where training and sampling disagree by a large factor, in either direction, the token's gradient is noise; a cap would keep
//! that noise at the cap's size, a mask drops it (2512.16144; first in the Ring models' reports). Refuses: bands that do not hold 1, for
//! they would drop what both policies agree on.

use super::{Correction, each, ratio};
use crate::batch::Grid;
use crate::part::Part;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// w = π_prox/μ per token if that lies within low..high, else 0; no gradient.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Masked {
    /// Smallest weight that is kept.
    #[schemars(range(min = 0, max = 1))]
    pub low: f64,
    /// Largest weight that is kept.
    #[schemars(range(min = 1))]
    pub high: f64,
}

impl Default for Masked {
    fn default() -> Self {
        Self { low: 0.5, high: 5.0 }
    }
}

impl PartOptions for Masked {
    const KIND: &'static str = "masked";
    const SUMMARY: &'static str = "importance weights per token, 0 outside a band (IcePop)";
    const DOC: &'static str = "k_t = exp(log π_prox − log μ), log-ratio clamped to ±20; w_t = k_t if low ≤ k_t ≤ high, else 0, constant in the gradient;\n\
        ratio = π_θ/π_prox. The aggregation still counts masked tokens. Source: 2512.16144 (low 0.5, high 5).";
    fn check(&self) -> Vec<OptionProblem> {
        let problems =
            [OptionProblem::outside("/low", self.low, 0.0..=1.0), OptionProblem::outside("/high", self.high, 1.0..)];
        problems.into_iter().flatten().collect()
    }
}

impl Part for Masked {}

impl Correction for Masked {
    fn weights(&self, proximal: &Grid, behavior: &Grid, mask: &[Vec<bool>]) -> Grid {
        each(mask, |i, t| {
            let weight = ratio(proximal[i][t] - behavior[i][t]);
            if (self.low..=self.high).contains(&weight) { weight } else { 0.0 }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corrections::Truncated;

    #[test]
    fn outside_the_band_the_weight_is_zero() {
        let ratios: [f64; 6] = [0.49, 0.51, 1.0, 4.9, 5.1, 1.0];
        let proximal = vec![ratios.iter().map(|r| r.ln()).collect()];
        let mask = vec![vec![true, true, true, true, true, false]];
        let weights = Masked::default().weights(&proximal, &vec![vec![0.0; 6]], &mask);
        for (have, want) in weights[0].iter().zip([0.0, 0.51, 1.0, 4.9, 0.0, 0.0]) {
            assert!((have - want).abs() < 1e-12, "{have} {want}");
        }
    }

    /// Within the band it is the ratio itself, which a cap above the band would not touch either.
    #[test]
    fn inside_the_band_it_is_the_truncated_weight() {
        fn grid(f: fn(f64) -> f64) -> Grid {
            vec![(0..40).map(|n| f(f64::from(n))).collect()]
        }
        let (proximal, behavior) = (grid(|n| (n * 1.3).sin() - 2.0), grid(|n| (n * 0.7).cos() - 2.0));
        let mask = vec![vec![true; 40]];
        let (masked, truncated) = (Masked::default(), Truncated { cap: 5.0 });
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
    fn the_band_must_hold_one() {
        assert!(Masked::default().check().is_empty());
        for (low, high) in [(1.1, 5.0), (0.5, 0.9), (-0.1, 5.0), (0.5, f64::NAN)] {
            assert!(!Masked { low, high }.check().is_empty());
        }
    }
}
