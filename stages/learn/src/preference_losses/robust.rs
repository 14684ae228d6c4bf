//! Implements `robust`, a DPO loss that is unbiased if a known share of the labels is incorrect.

use super::{ImplicitReward, PairTerm, PreferenceLoss, PreferencePair, logistic, positive, wrong_labels};
use crate::part::{Needs, RlPart};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// Options of `robust`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RobustDpo {
    /// Strength of the constraint to the reference.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub beta: f64,
    /// Share of pairs whose label is wrong; below 0.5.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 0.5))]
    pub flipped: f64,
}

impl Default for RobustDpo {
    fn default() -> Self {
        Self { beta: 0.1, flipped: 0.1 }
    }
}

impl PartOptions for RobustDpo {
    const KIND: &'static str = "robust";
    const SUMMARY: &'static str = "DPO, unbiased under a known share of flipped labels (rDPO)";
    const DOC: &'static str = "With m as in `dpo` and ε = flipped: loss = (−(1−ε)·log σ(m) + ε·log\n\
        σ(−m)) / (1−2ε). Its mean over labels that were flipped with probability ε is the loss of `dpo`\n\
        on the true labels. It is negative for pairs that are far apart in the right order, and unlike the\n\
        smoothed `dpo` it never turns a pair around.\n\n\
        Needs the reference. Source: 2403.00409.";
    fn check(&self) -> Vec<OptionProblem> {
        positive([("/beta", self.beta)]).into_iter().chain(wrong_labels("/flipped", self.flipped)).collect()
    }
}

impl RlPart for RobustDpo {
    fn needs(&self) -> Needs {
        Needs { reference: true, ..Needs::NONE }
    }
}

impl PreferenceLoss for RobustDpo {
    fn value(&self, pair: &PreferencePair) -> PairTerm {
        let &Self { beta, flipped: share } = self;
        ImplicitReward { beta, reference_free: false, length_normalized: false }.pair_term(pair, |margin| {
            let ((right, d_right), (wrong, d_wrong)) = (logistic(margin), logistic(-margin));
            let scale = 1.0 / (1.0 - 2.0 * share);
            (scale * ((1.0 - share) * right - share * wrong), scale * ((1.0 - share) * d_right + share * d_wrong))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PairAnswer, dpo::Dpo};
    use super::*;

    #[test]
    fn the_mean_over_flipped_labels_is_the_loss_on_true_labels() {
        let (a, b) = (
            PairAnswer { logprob: -5.0, reference: -8.0, tokens: 4 },
            PairAnswer { logprob: -4.0, reference: -3.0, tokens: 2 },
        );
        let (given, flipped) = (PreferencePair { chosen: a, rejected: b }, PreferencePair { chosen: b, rejected: a });
        let part = RobustDpo { beta: 0.3, flipped: 0.2 };
        let (given_value, flipped_value) = (part.value(&given), part.value(&flipped));
        let clean = Dpo { beta: 0.3, ..Dpo::default() }.value(&given);
        assert!((0.8 * given_value.loss + 0.2 * flipped_value.loss - clean.loss).abs() < 1e-14);
        assert!((0.8 * given_value.d_chosen + 0.2 * flipped_value.d_rejected - clean.d_chosen).abs() < 1e-14);
        assert_eq!(RobustDpo { beta: 0.3, flipped: 0.0 }.value(&given), clean);
        assert_eq!(RobustDpo { flipped: 0.5, ..part }.check()[0].pointer, "/flipped");
    }
}
