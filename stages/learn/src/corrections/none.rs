//! Implements `none`, no correction: the sampling policy is the ratio's denominator, so logprobs are not recomputed.

use super::{Correction, token_weights};
use crate::batch::TokenGrid;
use crate::part::RlPart;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;

/// `none` has no options.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NoCorrection {}

impl PartOptions for NoCorrection {
    const KIND: &'static str = "none";
    const SUMMARY: &'static str = "ratio to the sampling policy, weight 1";
    const DOC: &'static str = "ratio = π_θ/μ. For fresh samples from the weights that are trained.";
}

impl RlPart for NoCorrection {}

impl Correction for NoCorrection {
    fn weights(&self, _proximal: &TokenGrid, _behavior: &TokenGrid, mask: &[Vec<bool>]) -> TokenGrid {
        token_weights(mask, |_, _| 1.0)
    }
    fn recomputes(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_in_the_loss_have_weight_one() {
        let grid = vec![vec![-1.0, -3.0, 0.0], vec![-2.0]];
        let behavior = vec![vec![-3.0, -1.0, 0.0], vec![-0.5]];
        let weights = NoCorrection {}.weights(&grid, &behavior, &[vec![true, true, false], vec![true]]);
        assert_eq!(weights, vec![vec![1.0, 1.0, 0.0], vec![1.0]]);
        assert!(!NoCorrection {}.recomputes());
    }
}
