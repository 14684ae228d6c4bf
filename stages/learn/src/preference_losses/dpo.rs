//! Implements `dpo`, direct preference optimization, with label smoothing, without a reference, or normalized by
//! length.

use super::{ImplicitReward, PairTerm, PreferenceLoss, PreferencePair, logistic, positive, wrong_labels};
use crate::part::{Needs, RlPart};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// Options of `dpo`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Dpo {
    /// Strength of the constraint to the reference: the temperature of the implicit reward.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub beta: f64,
    /// Assumed share of pairs with the wrong label (conservative DPO); below 0.5.
    #[schemars(range(min = 0), extend("exclusiveMaximum" = 0.5))]
    pub label_smoothing: f64,
    /// Assume a reference that gives all answers the same probability.
    pub reference_free: bool,
    /// Divide each answer's log-ratio by its number of tokens.
    pub length_normalized: bool,
}

impl Default for Dpo {
    fn default() -> Self {
        Self { beta: 0.1, label_smoothing: 0.0, reference_free: false, length_normalized: false }
    }
}

impl PartOptions for Dpo {
    const KIND: &'static str = "dpo";
    const SUMMARY: &'static str = "logistic loss of the margin between implicit rewards (DPO, cDPO)";
    const DOC: &'static str = "r(y) = beta·(log π(y) − log π_ref(y)), sums over the tokens in the loss; m =\n\
        r(chosen) − r(rejected). Loss = −(1−ε)·log σ(m) − ε·log σ(−m), with ε =\n\
        label_smoothing.\n\n\
        `length_normalized` divides log π − log π_ref of each answer by its number of tokens; beta is then\n\
        about ten times as large and more (5 in Tülu 3). `reference_free` leaves log π_ref out; with\n\
        `sft_weight` of the stage that is CPO (2401.08417).\n\n\
        Needs the reference unless `reference_free`. Sources: 2305.18290; conservative DPO: E. Mitchell,\n\
        https://ericmitchell.ai/cdpo.pdf; normalized by length: Tülu 3, 2411.15124.";
    fn check(&self) -> Vec<OptionProblem> {
        let smoothing = wrong_labels("/label_smoothing", self.label_smoothing);
        positive([("/beta", self.beta)]).into_iter().chain(smoothing).collect()
    }
}

impl RlPart for Dpo {
    fn needs(&self) -> Needs {
        Needs { reference: !self.reference_free, ..Needs::NONE }
    }
}

impl PreferenceLoss for Dpo {
    fn value(&self, pair: &PreferencePair) -> PairTerm {
        let &Self { beta, label_smoothing: share, reference_free, length_normalized } = self;
        ImplicitReward { beta, reference_free, length_normalized }.pair_term(pair, |margin| {
            let ((right, d_right), (wrong, d_wrong)) = (logistic(margin), logistic(-margin));
            ((1.0 - share) * right + share * wrong, (1.0 - share) * d_right - share * d_wrong)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::PairAnswer;
    use super::*;

    /// Gains 3 and −1 over the reference, at 4 and 2 tokens.
    const PAIR: PreferencePair = PreferencePair {
        chosen: PairAnswer { logprob: -5.0, reference: -8.0, tokens: 4 },
        rejected: PairAnswer { logprob: -4.0, reference: -3.0, tokens: 2 },
    };

    #[test]
    fn loss_matches_hand_computation() {
        let found = Dpo { beta: 0.5, ..Dpo::default() }.value(&PAIR);
        let sigma = 1.0 / (1.0 + 2f64.exp());
        assert!((found.loss - (1.0 + (-2f64).exp()).ln()).abs() < 1e-15, "margin 0.5·4");
        assert!((found.d_chosen + 0.5 * sigma).abs() < 1e-15 && (found.d_rejected - 0.5 * sigma).abs() < 1e-15);
        assert_eq!((found.chosen_reward, found.rejected_reward), (1.5, -0.5));
        let smoothed = Dpo { beta: 0.5, label_smoothing: 0.25, ..Dpo::default() }.value(&PAIR);
        assert!((smoothed.loss - found.loss - 0.25 * 2.0).abs() < 1e-15, "−log σ(−m) = −log σ(m) + m");
        assert!((smoothed.d_chosen - 0.5 * (0.25 - sigma)).abs() < 1e-15);
        let by_token = Dpo { beta: 2.0, length_normalized: true, ..Dpo::default() }.value(&PAIR);
        assert_eq!((by_token.chosen_reward, by_token.rejected_reward), (1.5, -1.0));
        assert_eq!(by_token.d_chosen / by_token.d_rejected, -0.5, "slopes are per token of the answer");
        let free = Dpo { beta: 1.0, reference_free: true, ..Dpo::default() };
        assert_eq!((free.value(&PAIR).chosen_reward, free.needs().reference), (-5.0, false));
    }

    #[test]
    fn the_loss_is_log_two_at_the_reference_and_finite_far_from_it() {
        let equal = PairAnswer { logprob: -7.0, reference: -7.0, tokens: 3 };
        assert!(
            (Dpo::default().value(&PreferencePair { chosen: equal, rejected: equal }).loss - 2f64.ln()).abs() < 1e-15
        );
        let far = PreferencePair { chosen: PairAnswer { logprob: -9e3, reference: 0.0, tokens: 1 }, rejected: equal };
        let found = Dpo { beta: 1.0, ..Dpo::default() }.value(&far);
        assert_eq!((found.loss, found.d_chosen, found.d_rejected), (9e3, -1.0, 1.0));
    }

    #[test]
    fn options_are_checked() {
        assert_eq!(Dpo::default().check(), []);
        let wrong = Dpo { beta: 0.0, label_smoothing: 0.5, ..Dpo::default() }.check();
        assert_eq!(wrong.iter().map(|p| p.pointer.as_str()).collect::<Vec<_>>(), ["/beta", "/label_smoothing"]);
    }
}
