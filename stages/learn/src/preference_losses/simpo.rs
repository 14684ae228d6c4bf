//! Implements `simpo`, whose reward is the mean log-probability of an answer, with a target margin and without a
//! reference.

use super::{ImplicitReward, PairTerm, PreferenceLoss, PreferencePair, logistic, positive};
use crate::part::RlPart;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// Options of `simpo`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Simpo {
    /// Factor of the mean log-probability per token.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub beta: f64,
    /// Target margin between the rewards (γ); 2405.14734 tries 0.3 to 1.6.
    #[schemars(range(min = 0))]
    pub margin: f64,
}

impl Default for Simpo {
    fn default() -> Self {
        Self { beta: 2.0, margin: 1.0 }
    }
}

impl PartOptions for Simpo {
    const KIND: &'static str = "simpo";
    const SUMMARY: &'static str = "logistic loss of mean log-probabilities with a margin, without a reference (SimPO)";
    const DOC: &'static str = "r(y) = beta·log π(y)/|y|, the mean over the tokens in the loss; loss = −log\n\
        σ(r(chosen) − r(rejected) − margin). TRL's `simpo_gamma` is the same margin. Only the\n\
        learning rate keeps the policy near its start, so small rates matter more than in `dpo`. Source:\n\
        2405.14734.";
    fn check(&self) -> Vec<OptionProblem> {
        let margin = OptionProblem::out_of_range("/margin", self.margin, 0.0..);
        positive([("/beta", self.beta)]).into_iter().chain(margin).collect()
    }
}

impl RlPart for Simpo {}

impl PreferenceLoss for Simpo {
    fn value(&self, pair: &PreferencePair) -> PairTerm {
        let &Self { beta, margin: target } = self;
        ImplicitReward { beta, reference_free: true, length_normalized: true }
            .pair_term(pair, |margin| logistic(margin - target))
    }
}

#[cfg(test)]
mod tests {
    use super::super::PairAnswer;
    use super::*;

    #[test]
    fn loss_matches_hand_computation_and_reads_no_reference() {
        let mut pair = PreferencePair {
            chosen: PairAnswer { logprob: -2.0, reference: 0.0, tokens: 4 },
            rejected: PairAnswer { logprob: -3.0, reference: 0.0, tokens: 2 },
        };
        let part = Simpo { beta: 2.0, margin: 0.5 };
        let found = part.value(&pair);
        let sigma = 1.0 / (1.0 + 1.5f64.exp());
        assert!((found.loss - (1.0 + (-1.5f64).exp()).ln()).abs() < 1e-15, "rewards −1 and −3, margin 2 − 0.5");
        assert!((found.d_chosen + 0.5 * sigma).abs() < 1e-15 && (found.d_rejected - sigma).abs() < 1e-15);
        pair.chosen.reference = -50.0;
        assert!(part.value(&pair) == found && !part.needs().reference);
    }
}
