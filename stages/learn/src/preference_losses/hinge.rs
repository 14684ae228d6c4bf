//! Implements `hinge`, SLiC's hinge loss on the margin; with a reference, it is the loss of RSO.

use super::{ImplicitReward, PairTerm, PreferenceLoss, PreferencePair, positive};
use crate::part::{Needs, RlPart};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// Options of `hinge`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Hinge {
    /// Factor of the log-ratios: 1/beta nats of gap, at margin 1, give zero loss.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub beta: f64,
    /// Margin at or above which a pair has no loss (δ of SLiC).
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub margin: f64,
    /// Assume a reference that gives all answers the same probability, as SLiC does.
    pub reference_free: bool,
}

impl Default for Hinge {
    fn default() -> Self {
        Self { beta: 0.1, margin: 1.0, reference_free: false }
    }
}

impl PartOptions for Hinge {
    const KIND: &'static str = "hinge";
    const SUMMARY: &'static str = "hinge loss of the margin between implicit rewards (SLiC, RSO)";
    const DOC: &'static str = "r(y) = beta·(log π(y) − log π_ref(y)), sums over the tokens in the loss; m =\n\
        r(chosen) − r(rejected). Loss = max(0, margin − m); its slope at the kink is 0.\n\n\
        SLiC is `{beta: 1, reference_free: true}` with `sft_weight` of the stage above 0. Needs the reference\n\
        unless `reference_free`. Sources: SLiC-HF, 2305.10425; with a reference and normalized: RSO, 2309.06657.";
    fn check(&self) -> Vec<OptionProblem> {
        positive([("/beta", self.beta), ("/margin", self.margin)])
    }
}

impl RlPart for Hinge {
    fn needs(&self) -> Needs {
        Needs { reference: !self.reference_free, ..Needs::NONE }
    }
}

impl PreferenceLoss for Hinge {
    fn value(&self, pair: &PreferencePair) -> PairTerm {
        let &Self { beta, margin: enough, reference_free } = self;
        ImplicitReward { beta, reference_free, length_normalized: false }
            .pair_term(pair, |margin| if margin < enough { (enough - margin, -1.0) } else { (0.0, 0.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::PairAnswer;
    use super::*;

    #[test]
    fn pairs_apart_by_the_margin_have_no_loss() {
        let pair = |logprob: f64| PreferencePair {
            chosen: PairAnswer { logprob, reference: -6.0, tokens: 2 },
            rejected: PairAnswer { logprob: -4.0, reference: -4.0, tokens: 2 },
        };
        let part = Hinge { beta: 0.5, ..Hinge::default() };
        let near = part.value(&pair(-5.0));
        assert_eq!((near.loss, near.d_chosen, near.d_rejected), (0.5, -0.5, 0.5));
        for enough in [-4.0, -1.0] {
            let far = part.value(&pair(enough));
            assert_eq!((far.loss, far.d_chosen, far.d_rejected), (0.0, 0.0, 0.0));
        }
        let slic = Hinge { beta: 1.0, margin: 2.0, reference_free: true };
        assert_eq!((slic.value(&pair(-5.0)).loss, slic.needs().reference), (3.0, false));
    }
}
