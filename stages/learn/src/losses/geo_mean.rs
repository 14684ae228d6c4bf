//! Implements `geo_mean` (GMPO), the geometric mean of token-clipped ratios, one value per sequence. A single extreme
//! ratio does not dominate a geometric mean, so the bounds can be wide (2507.20673). Exactly at a bound the gradient
//! passes.

use super::{RatioSums, ratio_metrics};
use crate::aggregate::EPSILON;
use crate::batch::LossBatch;
use crate::part::{LossTerm, RlPart, TermValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{MetricInfo, OptionProblem};

/// Options of `geo_mean`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GeoMean {
    /// Log-ratios are at least −clip_low.
    #[schemars(range(min = 0))]
    pub clip_low: f64,
    /// Log-ratios are at most clip_high.
    #[schemars(range(min = 0))]
    pub clip_high: f64,
}

impl Default for GeoMean {
    fn default() -> Self {
        Self { clip_low: 0.4, clip_high: 0.4 }
    }
}

impl PartOptions for GeoMean {
    const KIND: &'static str = "geo_mean";
    const SUMMARY: &'static str = "geometric mean of clipped token ratios (GMPO)";
    const DOC: &'static str = "d = logπ − logπ_old per token; held d = whichever of d and clamp(d, −clip_low,\n\
        clip_high) is worse for the sign of A. Sequence loss = −Ā·exp(Σ_t held d / (n + 1e-8)) with Ā = Σ_t A\n\
        / (n + 1e-8). Its weight is the sum of its tokens' weights (1/B with `aggregate: sequence_mean_token_mean`).\n\
        Source: 2507.20673 (bounds ±0.4 on the log-ratio).";
    fn metrics() -> Vec<MetricInfo> {
        ratio_metrics()
    }
    fn check(&self) -> Vec<OptionProblem> {
        let bounds = [("/clip_low", self.clip_low), ("/clip_high", self.clip_high)];
        bounds.into_iter().filter_map(|(at, bound)| OptionProblem::out_of_range(at, bound, 0.0..)).collect()
    }
}

impl RlPart for GeoMean {}

impl LossTerm for GeoMean {
    fn value(&self, b: &LossBatch) -> TermValue {
        let mut term = TermValue { d_logprobs: b.zeros(), ..TermValue::default() };
        let mut sums = RatioSums::default();
        for (i, row) in b.mask.iter().enumerate() {
            let tokens: Vec<usize> = (0..row.len()).filter(|&t| row[t]).collect();
            let n = tokens.len() as f64 + EPSILON;
            let held: Vec<ClippedLogRatio> = tokens
                .iter()
                .map(|&t| self.clip_log_ratio(b.logprobs[i][t] - b.old_logprobs[i][t], b.advantages[i][t]))
                .collect();
            let s = (held.iter().map(|h| h.value).sum::<f64>() / n).exp();
            let advantage = tokens.iter().map(|&t| b.advantages[i][t]).sum::<f64>() / n;
            let weight: f64 = tokens.iter().map(|&t| b.weights[i][t] * b.importance(i, t)).sum();
            term.loss -= weight * advantage * s;
            for (&t, h) in tokens.iter().zip(&held) {
                term.d_logprobs[i][t] = -weight * advantage * s / n * h.slope;
                sums.add(s, h.clipped);
            }
        }
        term.sums = sums.named();
        term
    }
}

/// Log-ratio of a token after the clip, and its derivative.
struct ClippedLogRatio {
    value: f64,
    slope: f64,
    clipped: bool,
}

impl GeoMean {
    fn clip_log_ratio(&self, d: f64, advantage: f64) -> ClippedLogRatio {
        let bounded = d.clamp(-self.clip_low, self.clip_high);
        if advantage == 0.0 {
            return ClippedLogRatio { value: 0.0, slope: 0.0, clipped: false };
        }
        let worse = if advantage > 0.0 { bounded < d } else { bounded > d };
        if worse {
            ClippedLogRatio { value: bounded, slope: 0.0, clipped: true }
        } else {
            ClippedLogRatio { value: d, slope: 1.0, clipped: false }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::losses::differences::{assert_gradients, batch};

    #[test]
    fn loss_matches_hand_computation() {
        let b = LossBatch {
            mask: vec![vec![true, true]],
            logprobs: vec![vec![1.0, -0.2]],
            old_logprobs: vec![vec![0.0, 0.0]],
            advantages: vec![vec![2.0, 2.0]],
            weights: vec![vec![0.5, 0.5]],
            ..LossBatch::default()
        };
        // The first token is clipped to 0.4: exp((0.4 − 0.2) / 2).
        let term = GeoMean::default().value(&b);
        assert!((term.loss + 2.0 * 0.1f64.exp()).abs() < 1e-7);
        assert_eq!(term.d_logprobs[0][0], 0.0);
        assert!((term.d_logprobs[0][1] + 0.1f64.exp()).abs() < 1e-7);
    }

    #[test]
    fn gradients_are_finite_differences() {
        assert_gradients(&GeoMean::default(), &batch(7));
        assert_gradients(&GeoMean { clip_low: 0.1, clip_high: 0.9 }, &batch(8));
    }
}
