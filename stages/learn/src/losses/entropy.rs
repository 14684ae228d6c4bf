//! Implements `entropy`, a bonus on the entropy of the policy that prevents early collapse.

use crate::batch::LossBatch;
use crate::part::{LossTerm, Needs, RlPart, TermValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// Options of `entropy`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Entropy {
    /// Weight of the bonus.
    #[schemars(range(min = 0))]
    pub weight: f64,
}

impl Default for Entropy {
    fn default() -> Self {
        Self { weight: 0.001 }
    }
}

impl PartOptions for Entropy {
    const KIND: &'static str = "entropy";
    const SUMMARY: &'static str = "bonus on the entropy of the current policy";
    const DOC: &'static str = "Token loss = −weight·H(π) in nats, with H the entropy of the current policy at the\n\
        token's position, under the sampling temperature.";
    fn check(&self) -> Vec<OptionProblem> {
        OptionProblem::out_of_range("/weight", self.weight, 0.0..).into_iter().collect()
    }
}

impl RlPart for Entropy {
    fn needs(&self) -> Needs {
        Needs { entropies: true, ..Needs::NONE }
    }
}

impl LossTerm for Entropy {
    fn value(&self, b: &LossBatch) -> TermValue {
        let entropies = b.entropies.as_ref().expect("`needs` includes entropies");
        let mut slopes = b.zeros();
        let mut term = TermValue { d_logprobs: b.zeros(), ..TermValue::default() };
        for (i, t) in b.places() {
            let weight = self.weight * b.weights[i][t];
            term.loss -= weight * entropies[i][t];
            slopes[i][t] = -weight;
        }
        term.d_entropies = Some(slopes);
        term
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::losses::differences::{assert_gradients, batch};

    #[test]
    fn gradients_are_finite_differences() {
        assert_gradients(&Entropy { weight: 0.5 }, &batch(6));
    }

    #[test]
    fn more_entropy_means_less_loss() {
        let b = batch(7);
        let mut higher = b.clone();
        higher.entropies.as_mut().unwrap().iter_mut().flatten().for_each(|h| *h += 1.0);
        let part = Entropy { weight: 0.5 };
        assert!((part.value(&b).loss - part.value(&higher).loss - 0.5).abs() < 1e-12);
    }
}
