//! No correction: the sampling policy is the ratio's denominator.
//!
//! Why so: fresh samples of the weights that are trained need none, and the recomputation of their logprobs is saved. Refuses: nothing.

use super::{Correction, each};
use crate::batch::Grid;
use crate::part::Part;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;

/// `none` has no options.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct None {}

impl PartOptions for None {
    const KIND: &'static str = "none";
    const SUMMARY: &'static str = "ratio against the sampling policy, weight 1";
    const DOC: &'static str = "ratio = π_θ/μ. Right for fresh samples of the same weights.";
}

impl Part for None {}

impl Correction for None {
    fn weights(&self, _proximal: &Grid, _behavior: &Grid, mask: &[Vec<bool>]) -> Grid {
        each(mask, |_, _| 1.0)
    }
    fn recomputes(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_in_the_loss_weighs_one() {
        let grid = vec![vec![-1.0, -3.0, 0.0], vec![-2.0]];
        let behavior = vec![vec![-3.0, -1.0, 0.0], vec![-0.5]];
        let weights = None {}.weights(&grid, &behavior, &[vec![true, true, false], vec![true]]);
        assert_eq!(weights, vec![vec![1.0, 1.0, 0.0], vec![1.0]]);
        assert!(!None {}.recomputes());
    }
}
