//! Implements `cispo`, REINFORCE with a clipped importance weight. Clipping the loss removes the gradient of rare but
//! decisive tokens after their first update; clipping the weight keeps the gradient of all tokens (MiniMax-M1,
//! 2506.13585).

use super::{RatioSums, ratio, ratio_metrics};
use crate::batch::LossBatch;
use crate::part::{LossTerm, RlPart, TermValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{MetricInfo, OptionProblem};

/// Options of `cispo`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Cispo {
    /// The weight is at least 1 − clip_low.
    #[schemars(range(min = 0, max = 1))]
    pub clip_low: f64,
    /// The weight is at most 1 + clip_high.
    #[schemars(range(min = 0))]
    pub clip_high: f64,
}

impl Default for Cispo {
    fn default() -> Self {
        Self { clip_low: 0.2, clip_high: 0.28 }
    }
}

impl PartOptions for Cispo {
    const KIND: &'static str = "cispo";
    const SUMMARY: &'static str = "REINFORCE with a clipped importance weight (CISPO)";
    const DOC: &'static str = "Token loss = −w·A·logπ with w = clip(ρ, 1−clip_low, 1+clip_high) held constant\n\
        and ρ = exp(logπ − logπ_old), log-ratio clamped to ±20. The gradient of every token is −w·A.\n\
        Multiplied by the importance weight of a correction, if any. Source: 2506.13585.";
    fn metrics() -> Vec<MetricInfo> {
        ratio_metrics()
    }
    fn check(&self) -> Vec<OptionProblem> {
        super::bounds(self.clip_low, self.clip_high)
    }
}

impl RlPart for Cispo {}

impl LossTerm for Cispo {
    fn value(&self, b: &LossBatch) -> TermValue {
        let mut term = TermValue { d_logprobs: b.zeros(), ..TermValue::default() };
        let mut sums = RatioSums::default();
        for (i, t) in b.places() {
            let log_ratio = b.logprobs[i][t] - b.old_logprobs[i][t];
            let (rho, _) = ratio(log_ratio);
            let held = rho.clamp(1.0 - self.clip_low, 1.0 + self.clip_high);
            let slope = -b.weights[i][t] * b.importance(i, t) * held * b.advantages[i][t];
            term.loss += slope * b.logprobs[i][t];
            term.d_logprobs[i][t] = slope;
            sums.add(rho, held != rho);
        }
        term.sums = sums.named();
        term
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clipped_tokens_still_learn() {
        let one = |ratio: f64, advantage: f64| {
            let b = LossBatch {
                mask: vec![vec![true]],
                logprobs: vec![vec![ratio.ln() - 1.0]],
                old_logprobs: vec![vec![-1.0]],
                advantages: vec![vec![advantage]],
                weights: vec![vec![0.5]],
                ..LossBatch::default()
            };
            let term = Cispo::default().value(&b);
            (term.d_logprobs[0][0], term.loss / b.logprobs[0][0])
        };
        for (ratio, weight) in [(1.0, 1.0), (3.0, 1.28), (0.1, 0.8)] {
            for advantage in [2.0, -2.0] {
                let (gradient, slope) = one(ratio, advantage);
                assert!((gradient + 0.5 * weight * advantage).abs() < 1e-12);
                assert!((gradient - slope).abs() < 1e-12, "the loss equals the gradient times logπ");
            }
        }
    }
}
