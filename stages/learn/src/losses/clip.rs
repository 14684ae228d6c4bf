//! Implements `clip`, PPO's clipped policy-gradient loss with separate bounds (clip-higher) and optional dual clip.
//! Exactly at a bound the gradient passes, as in the golden vectors.

use super::{RatioSums, ratio, ratio_metrics};
use crate::batch::LossBatch;
use crate::part::{LossTerm, RlPart, TermValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{MetricInfo, OptionProblem, Reduce, above};

/// Options of `clip`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Clip {
    /// The ratio is at least 1 − clip_low.
    #[schemars(range(min = 0, max = 1))]
    pub clip_low: f64,
    /// The ratio is at most 1 + clip_high.
    #[schemars(range(min = 0))]
    pub clip_high: f64,
    /// Dual clip: with a negative advantage the loss is at most −c·A. Above 1; null = off.
    pub dual_clip: Option<f64>,
}

impl Default for Clip {
    fn default() -> Self {
        Self { clip_low: 0.2, clip_high: 0.28, dual_clip: None }
    }
}

impl PartOptions for Clip {
    const KIND: &'static str = "clip";
    const SUMMARY: &'static str = "PPO's clipped ratio, with clip-higher and optional dual clip";
    const DOC: &'static str = "ρ = exp(logπ − logπ_old), log-ratio clamped to ±20. Token loss = max(−ρA,\n\
        −clip(ρ, 1−clip_low, 1+clip_high)A); with dual_clip c and A < 0, min(that, −cA). Multiplied by the\n\
        importance weight of a correction, if any.\n\n\
        A larger clip_high keeps exploration alive; the dual clip limits the effect of one very unlikely bad token.\n\
        Sources: 1707.06347; clip-higher 2503.14476; dual clip 1912.09729.";
    fn metrics() -> Vec<MetricInfo> {
        [
            ratio_metrics(),
            vec![
                MetricInfo::new(
                    "higher_fraction",
                    "share",
                    "Share of tokens that have a gradient only because `clip_high` is above `clip_low`.",
                )
                .reduced_by(Reduce::Whole)
                .optional()
                .former_name("clip_higher_fraction"),
            ],
        ]
        .concat()
    }
    fn check(&self) -> Vec<OptionProblem> {
        let dual_clip = self.dual_clip.and_then(|c| OptionProblem::out_of_range("/dual_clip", c, above(1.0)));
        let dual_clip = dual_clip.map(|p| p.help("use a value above 1; 3 is usual, null turns it off"));
        super::bounds(self.clip_low, self.clip_high).into_iter().chain(dual_clip).collect()
    }
}

impl RlPart for Clip {}

impl LossTerm for Clip {
    fn value(&self, b: &LossBatch) -> TermValue {
        let mut term = TermValue { d_logprobs: b.zeros(), ..TermValue::default() };
        let mut sums = RatioSums::default();
        let mut higher = 0.0;
        for (i, t) in b.places() {
            let log_ratio = b.logprobs[i][t] - b.old_logprobs[i][t];
            let token = self.token(log_ratio, b.advantages[i][t]);
            higher += f64::from(u8::from(self.only_higher(log_ratio, b.advantages[i][t])));
            let weight = b.weights[i][t] * b.importance(i, t);
            term.loss += weight * token.loss;
            term.d_logprobs[i][t] = weight * token.gradient;
            sums.add(ratio(log_ratio).0, token.clipped);
        }
        term.sums = sums.named();
        term.sums.push(("higher_fraction", higher));
        term
    }
}

/// Unweighted loss of one token.
pub(super) struct TokenLoss {
    pub(super) loss: f64,
    /// d loss / d current logprob.
    pub(super) gradient: f64,
    /// Whether the clip removed the gradient.
    pub(super) clipped: bool,
}

impl Clip {
    /// Returns whether the token has a gradient that bounds of equal width would have removed.
    fn only_higher(&self, log_ratio: f64, advantage: f64) -> bool {
        let rho = ratio(log_ratio).0;
        advantage > 0.0 && rho > 1.0 + self.clip_low && rho <= 1.0 + self.clip_high
    }
    pub(super) fn token(&self, log_ratio: f64, advantage: f64) -> TokenLoss {
        let (rho, slope) = ratio(log_ratio);
        let bounded = rho.clamp(1.0 - self.clip_low, 1.0 + self.clip_high);
        let (free, held) = (-rho * advantage, -bounded * advantage);
        let mut token = if held > free {
            TokenLoss { loss: held, gradient: 0.0, clipped: true }
        } else {
            TokenLoss { loss: free, gradient: -slope * advantage, clipped: false }
        };
        if let Some(c) = self.dual_clip
            && advantage < 0.0
            && token.loss > -c * advantage
        {
            token = TokenLoss { loss: -c * advantage, gradient: 0.0, clipped: true };
        }
        token
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::losses::differences::{assert_gradients, batch};

    fn one(part: &Clip, ratio: f64, advantage: f64) -> (f64, f64) {
        let b = LossBatch {
            mask: vec![vec![true]],
            logprobs: vec![vec![ratio.ln() - 1.0]],
            old_logprobs: vec![vec![-1.0]],
            advantages: vec![vec![advantage]],
            weights: vec![vec![1.0]],
            ..LossBatch::default()
        };
        let t = part.value(&b);
        (t.loss, t.d_logprobs[0][0])
    }

    #[test]
    fn loss_matches_hand_computation() {
        let part = Clip::default();
        let close =
            |(a, b): (f64, f64), (x, y): (f64, f64)| assert!((a - x).abs() < 1e-12 && (b - y).abs() < 1e-12, "{a} {b}");
        close(one(&part, 1.0, 2.0), (-2.0, -2.0));
        close(one(&part, 1.5, 2.0), (-2.56, 0.0));
        close(one(&part, 0.5, 2.0), (-1.0, -1.0));
        close(one(&part, 0.5, -2.0), (1.6, 0.0));
        close(one(&part, 5.0, -2.0), (10.0, 10.0));
        close(one(&Clip { dual_clip: Some(3.0), ..part }, 5.0, -2.0), (6.0, 0.0));
    }

    #[test]
    fn gradients_are_finite_differences() {
        assert_gradients(&Clip::default(), &batch(1));
        assert_gradients(&Clip { dual_clip: Some(3.0), ..Clip::default() }, &batch(2));
        assert_gradients(&Clip::default(), &LossBatch { correction: Some(batch(3).advantages), ..batch(4) });
    }

    #[test]
    fn bounds_are_checked() {
        assert!(!Clip { dual_clip: Some(1.0), ..Clip::default() }.check().is_empty());
        assert!(!Clip { clip_low: 1.5, ..Clip::default() }.check().is_empty());
    }
}
