//! Implements `value`, the clipped squared error of a value head. PPO limits the updates of its critic like those of
//! its policy: a prediction that moved further than `clip` has no gradient if the clipped prediction has the larger
//! error (1707.06347).

use crate::batch::LossBatch;
use crate::part::{LossTerm, Needs, RlPart, TermValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{MetricInfo, OptionProblem, Reduce, above};

/// Options of `value`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ValueLoss {
    /// Weight of the loss.
    #[schemars(range(min = 0))]
    pub weight: f64,
    /// Predictions are clipped to this distance from the old ones.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub clip: f64,
}

impl Default for ValueLoss {
    fn default() -> Self {
        Self { weight: 0.5, clip: 0.2 }
    }
}

impl PartOptions for ValueLoss {
    const KIND: &'static str = "value";
    const SUMMARY: &'static str = "clipped squared error of a value head";
    const DOC: &'static str = "Token loss = weight·½·max((V − R)², (clamp(V, V_old − clip, V_old + clip) −\n\
        R)²), with V of the current weights, V_old of the sampling ones, and R the return from the advantage part\n\
        (`gae`). Needs a value head. Source: 1707.06347.";
    fn metrics() -> Vec<MetricInfo> {
        vec![
            MetricInfo::new("clip_fraction", "share", "Share of tokens whose clipped error is the larger one.")
                .reduced_by(Reduce::LastTenth)
                .optional()
                .former_name("value_clip_fraction"),
            MetricInfo::new("loss", "reward²", "½·(V − R)² of the value model, a mean over tokens.")
                .lower()
                .reduced_by(Reduce::LastTenth)
                .optional()
                .former_name("value_loss"),
        ]
    }
    fn check(&self) -> Vec<OptionProblem> {
        let problems = [
            OptionProblem::out_of_range("/weight", self.weight, 0.0..),
            OptionProblem::out_of_range("/clip", self.clip, above(0.0)),
        ];
        problems.into_iter().flatten().collect()
    }
}

impl RlPart for ValueLoss {
    fn needs(&self) -> Needs {
        Needs { values: true, ..Needs::NONE }
    }
}

impl LossTerm for ValueLoss {
    fn value(&self, b: &LossBatch) -> TermValue {
        let needed = "`needs` includes values";
        let (values, old) = (b.values.as_ref().expect(needed), b.old_values.as_ref().expect(needed));
        let returns = b.returns.as_ref().expect(needed);
        let mut slopes = b.zeros();
        let mut term = TermValue { d_logprobs: b.zeros(), ..TermValue::default() };
        let (mut clipped, mut error) = (0.0, 0.0);
        for (i, t) in b.places() {
            let (v, target) = (values[i][t], returns[i][t]);
            let held = v.clamp(old[i][t] - self.clip, old[i][t] + self.clip);
            let (free_error, held_error) = ((v - target).powi(2), (held - target).powi(2));
            let weight = self.weight * b.weights[i][t];
            term.loss += weight * 0.5 * free_error.max(held_error);
            // The clipped error is larger only if the prediction was clipped, and then it has no slope.
            slopes[i][t] = if held_error > free_error { 0.0 } else { weight * (v - target) };
            error += 0.5 * free_error;
            clipped += f64::from(u8::from(held_error > free_error));
        }
        term.d_values = Some(slopes);
        term.sums = vec![("clip_fraction", clipped), ("loss", error)];
        term
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::losses::differences::{assert_gradients, batch};

    #[test]
    fn gradients_are_finite_differences() {
        assert_gradients(&ValueLoss::default(), &batch(9));
        assert_gradients(&ValueLoss { weight: 2.0, clip: 0.05 }, &batch(10));
    }
}
