//! Implements `kl`, a penalty on the distance from the reference policy. With d = logπ − logπ_ref on sampled tokens, k1
//! = d is unbiased but noisy, k2 is half the square of d, and k3 is unbiased and never negative; each has its own
//! gradient.

use super::LOG_RATIO_LIMIT;
use crate::batch::LossBatch;
use crate::part::{LossTerm, Needs, RlPart, TermValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{MetricInfo, OptionProblem, Reduce};

/// Limit of |k3|; larger values are clamped.
pub const K3_LIMIT: f64 = 10.0;

/// Estimator of a token's KL divergence, with d = logπ − logπ_ref.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Estimator {
    /// d.
    K1,
    /// |d|.
    Absolute,
    /// d²/2.
    K2,
    /// e^{−d} + d − 1.
    #[default]
    K3,
}

impl Estimator {
    /// Returns the value and its derivative by the current logprob.
    pub fn value(self, logprob: f64, reference: f64) -> (f64, f64) {
        let d = logprob - reference;
        match self {
            Self::K1 => (d, 1.0),
            Self::Absolute => (d.abs(), if d == 0.0 { 0.0 } else { d.signum() }),
            Self::K2 => (0.5 * d * d, d),
            Self::K3 => k3(d),
        }
    }
}

fn k3(d: f64) -> (f64, f64) {
    let held = (-d).clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT);
    let value = held.exp() - held - 1.0;
    let inside = d.abs() <= LOG_RATIO_LIMIT && value <= K3_LIMIT;
    (value.clamp(-K3_LIMIT, K3_LIMIT), if inside { 1.0 - held.exp() } else { 0.0 })
}

/// Options of `kl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Kl {
    /// Weight of the penalty.
    #[schemars(range(min = 0))]
    pub weight: f64,
    /// Estimator of the divergence: `k1`, `absolute`, `k2` or `k3`.
    pub estimator: Estimator,
}

impl Default for Kl {
    fn default() -> Self {
        Self { weight: 0.01, estimator: Estimator::K3 }
    }
}

impl PartOptions for Kl {
    const KIND: &'static str = "kl";
    const SUMMARY: &'static str = "penalty on the distance from the reference policy (k1, k2, k3)";
    const DOC: &'static str = "Token loss = weight·k(d) with d = logπ − logπ_ref, where logπ_ref is that of the\n\
        model this stage started from. k1 = d, k2 = d²/2, k3 = e^{−d} + d − 1 (log-ratio clamped to ±20, value\n\
        to ±10), absolute = |d|. Needs the reference.";
    fn metrics() -> Vec<MetricInfo> {
        vec![
            MetricInfo::new(
                "reference",
                "nats",
                "Divergence from the reference policy by the chosen estimator, a mean over tokens.",
            )
            .lower()
            .reduced_by(Reduce::LastTenth)
            .optional()
            .former_name("kl_reference"),
        ]
    }
    fn check(&self) -> Vec<OptionProblem> {
        OptionProblem::out_of_range("/weight", self.weight, 0.0..).into_iter().collect()
    }
}

impl RlPart for Kl {
    fn needs(&self) -> Needs {
        Needs { reference: true, ..Needs::NONE }
    }
}

impl LossTerm for Kl {
    fn value(&self, b: &LossBatch) -> TermValue {
        let reference = b.reference.as_ref().expect("`needs` includes the reference");
        let mut term = TermValue { d_logprobs: b.zeros(), ..TermValue::default() };
        let mut sum = 0.0;
        for (i, t) in b.places() {
            let (value, slope) = self.estimator.value(b.logprobs[i][t], reference[i][t]);
            let weight = self.weight * b.weights[i][t];
            term.loss += weight * value;
            term.d_logprobs[i][t] = weight * slope;
            sum += value;
        }
        term.sums = vec![("reference", sum)];
        term
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::losses::differences::{assert_gradients, batch};

    #[test]
    fn estimators_match_hand_computation() {
        let close = |e: Estimator, value: f64| assert!((e.value(-1.0, -1.5).0 - value).abs() < 1e-12);
        close(Estimator::K1, 0.5);
        close(Estimator::Absolute, 0.5);
        close(Estimator::K2, 0.125);
        close(Estimator::K3, (-0.5f64).exp() - 0.5);
        assert_eq!(Estimator::K3.value(-30.0, -1.0), (K3_LIMIT, 0.0));
    }

    #[test]
    fn gradients_are_finite_differences() {
        for estimator in [Estimator::K1, Estimator::Absolute, Estimator::K2, Estimator::K3] {
            assert_gradients(&Kl { weight: 0.3, estimator }, &batch(5));
        }
    }
}
