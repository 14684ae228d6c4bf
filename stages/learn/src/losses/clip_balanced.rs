//! Implements `clip_balanced` (AEPO's entropy-balanced clip), which equals `clip`, except that tokens above the upper
//! bound keep a gradient.
//!
//! Correct but unlikely tokens, often the first after a tool result, cross the upper bound after one update and would
//! then have no gradient. This term gives them the gradient that they had at the bound (2510.14545).

use super::clip::Clip;
use super::{RatioSums, ratio, ratio_metrics};
use crate::batch::LossBatch;
use crate::part::{LossTerm, RlPart, TermValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{MetricInfo, OptionProblem, Reduce};

/// Options of `clip_balanced`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClipBalanced {
    /// The ratio is at least 1 − clip_low.
    #[schemars(range(min = 0, max = 1))]
    pub clip_low: f64,
    /// The ratio is at most 1 + clip_high; the gradient there is scaled, not removed.
    #[schemars(range(min = 0))]
    pub clip_high: f64,
}

impl Default for ClipBalanced {
    fn default() -> Self {
        Self { clip_low: 0.2, clip_high: 0.28 }
    }
}

impl PartOptions for ClipBalanced {
    const KIND: &'static str = "clip_balanced";
    const SUMMARY: &'static str = "clipped ratio whose upper bound keeps a scaled gradient (AEPO)";
    const DOC: &'static str = "Loss and gradient of `clip`, except where ρ > 1 + clip_high and A > 0. There the term\n\
        is ρ/sg(ρ)·(1 + clip_high)·A (sg = constant in the gradient): the value is the clipped one, and the\n\
        gradient by the logprob is −(1 + clip_high)·A instead of 0. Multiplied by the importance weight of a\n\
        correction, if any. Source: 2510.14545.";
    fn metrics() -> Vec<MetricInfo> {
        [
            ratio_metrics(),
            vec![
                MetricInfo::new(
                    "rescued",
                    "share",
                    "Share of tokens that `clip` would have silenced at the upper bound.",
                )
                .reduced_by(Reduce::Whole)
                .optional()
                .former_name("rescued"),
            ],
        ]
        .concat()
    }
    fn check(&self) -> Vec<OptionProblem> {
        super::bounds(self.clip_low, self.clip_high)
    }
}

impl RlPart for ClipBalanced {}

impl LossTerm for ClipBalanced {
    fn value(&self, b: &LossBatch) -> TermValue {
        let clip = Clip { clip_low: self.clip_low, clip_high: self.clip_high, dual_clip: None };
        let mut term = TermValue { d_logprobs: b.zeros(), ..TermValue::default() };
        let mut sums = RatioSums::default();
        let mut rescued = 0.0;
        for (i, t) in b.places() {
            let log_ratio = b.logprobs[i][t] - b.old_logprobs[i][t];
            let advantage = b.advantages[i][t];
            let mut token = clip.token(log_ratio, advantage);
            // With a positive advantage only the upper bound clips. The slope of ρ/sg(ρ)·held at ρ is the held loss.
            if token.clipped && advantage > 0.0 {
                token.gradient = token.loss;
                token.clipped = false;
                rescued += 1.0;
            }
            let weight = b.weights[i][t] * b.importance(i, t);
            term.loss += weight * token.loss;
            term.d_logprobs[i][t] = weight * token.gradient;
            sums.add(ratio(log_ratio).0, token.clipped);
        }
        term.sums = sums.named();
        term.sums.push(("rescued", rescued));
        term
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::losses::cispo::Cispo;
    use crate::losses::differences::{assert_gradients, batch};

    fn one(ratio: f64, advantage: f64) -> TermValue {
        let b = LossBatch {
            mask: vec![vec![true]],
            logprobs: vec![vec![ratio.ln() - 1.0]],
            old_logprobs: vec![vec![-1.0]],
            advantages: vec![vec![advantage]],
            weights: vec![vec![1.0]],
            ..LossBatch::default()
        };
        ClipBalanced::default().value(&b)
    }

    #[test]
    fn loss_matches_hand_computation() {
        for (ratio, advantage, loss, gradient, rescued) in [
            (1.0, 2.0, -2.0, -2.0, 0.0),
            (1.5, 2.0, -2.56, -2.56, 1.0),
            (40.0, 2.0, -2.56, -2.56, 1.0),
            (0.5, 2.0, -1.0, -1.0, 0.0),
            (0.5, -2.0, 1.6, 0.0, 0.0),
            (5.0, -2.0, 10.0, 10.0, 0.0),
        ] {
            let term = one(ratio, advantage);
            assert!(
                (term.loss - loss).abs() < 1e-12 && (term.d_logprobs[0][0] - gradient).abs() < 1e-12,
                "ratio {ratio}: {term:?}"
            );
            assert_eq!(term.sums[2], ("rescued", rescued));
        }
        assert_eq!(one(0.5, -2.0).sums[0], ("fraction", 1.0));
        assert_eq!(one(1.5, 2.0).sums[0], ("fraction", 0.0));
    }

    /// Tokens above the upper bound learn as in `cispo`, all others as in `clip`; the loss is always that of `clip`.
    #[test]
    fn equals_clip_and_cispo_above_the_upper_bound() {
        let mut rescued = 0.0;
        for seed in 0..8 {
            let b = batch(seed);
            let (term, clip, cispo) =
                (ClipBalanced::default().value(&b), Clip::default().value(&b), Cispo::default().value(&b));
            assert_eq!(term.loss, clip.loss);
            for (i, t) in b.places() {
                let above = b.advantages[i][t] > 0.0 && b.logprobs[i][t] - b.old_logprobs[i][t] > 1.28f64.ln();
                let want = if above { cispo.d_logprobs[i][t] } else { clip.d_logprobs[i][t] };
                assert!((term.d_logprobs[i][t] - want).abs() < 1e-12);
            }
            rescued += term.sums[2].1;
        }
        assert!(rescued > 0.0, "some tokens must be above the bound");
    }

    #[test]
    fn gradients_are_finite_differences_where_nothing_is_rescued() {
        let mut b = batch(11);
        b.advantages.iter_mut().flatten().for_each(|a| *a = -a.abs());
        assert_gradients(&ClipBalanced::default(), &b);
        assert_gradients(&ClipBalanced { clip_low: 0.2, clip_high: 100.0 }, &batch(12));
    }

    #[test]
    fn bounds_are_checked() {
        assert!(!ClipBalanced { clip_low: -0.1, ..ClipBalanced::default() }.check().is_empty());
        assert!(!ClipBalanced { clip_high: f64::NAN, ..ClipBalanced::default() }.check().is_empty());
    }
}
