//! Implements `whiten`, which whitens advantages over all tokens of the batch in the loss. REINFORCE++ with baseline
//! (2501.03262) is `whiten` after `group` with `scale: none`. Fewer than two tokens stay unchanged.

use crate::batch::{Batch, TokenGrid};
use crate::part::{Modulation, RlPart};
use crate::statistics::{mean, variance};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// Options of `whiten`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Whiten {
    /// Term added to the variance under the root.
    #[schemars(range(min = 0))]
    pub epsilon: f64,
    /// 1 = sample variance, 0 = population.
    #[schemars(range(min = 0, max = 1))]
    pub ddof: u8,
}

impl Default for Whiten {
    fn default() -> Self {
        Self { epsilon: 1e-8, ddof: 1 }
    }
}

impl PartOptions for Whiten {
    const KIND: &'static str = "whiten";
    const SUMMARY: &'static str = "zero mean and unit variance over all tokens of the batch";
    const DOC: &'static str = "A ← (A − mean) / sqrt(var + epsilon) over the tokens in the loss, with the\n\
     variance by ddof. Source: 2501.03262.";
    fn check(&self) -> Vec<OptionProblem> {
        let problems = [
            OptionProblem::out_of_range("/epsilon", self.epsilon, 0.0..),
            OptionProblem::out_of_range("/ddof", self.ddof, 0..=1),
        ];
        problems.into_iter().flatten().collect()
    }
}

impl RlPart for Whiten {}

impl Modulation for Whiten {
    fn apply(&mut self, batch: &Batch, advantages: &mut TokenGrid) {
        let masks: Vec<&[bool]> = batch.rollouts().map(|r| r.mask.as_slice()).collect();
        let values: Vec<f64> = masks
            .iter()
            .zip(advantages.iter())
            .flat_map(|(m, a)| m.iter().zip(a).filter(|(m, _)| **m).map(|(_, a)| *a))
            .collect();
        let (Some(mean), Some(variance)) = (mean(&values), variance(&values, self.ddof)) else { return };
        let scale = 1.0 / (variance + self.epsilon).sqrt();
        for (mask, row) in masks.iter().zip(advantages) {
            for (m, a) in mask.iter().zip(row) {
                *a = if *m { (*a - mean) * scale } else { 0.0 };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Group, Rollout};

    #[test]
    fn tokens_in_the_loss_get_mean_zero_and_variance_one() {
        let rollout = |mask: Vec<bool>| Rollout { mask, ..Rollout::default() };
        let batch = Batch {
            step: 0,
            groups: vec![Group {
                rollouts: vec![rollout(vec![true, true, false]), rollout(vec![true])],
                ..Group::default()
            }],
        };
        let mut a = vec![vec![1.0, 1.0, 9.0], vec![4.0]];
        Whiten::default().apply(&batch, &mut a);
        assert_eq!(a[0][2], 0.0);
        let sum: f64 = a.iter().flatten().sum();
        let squares: f64 = a.iter().flatten().map(|x| x * x).sum();
        assert!(sum.abs() < 1e-12 && (squares / 2.0 - 1.0).abs() < 1e-6);
    }
}
