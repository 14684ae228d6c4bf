//! Implements `orpo`, fine-tuning on the chosen answer with a penalty on the odds ratio and without a reference.

use super::{PairAnswer, PairTerm, PreferenceLoss, PreferencePair, logistic};
use crate::part::RlPart;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::OptionProblem;

/// Upper bound of mean log-probabilities: at 0 the odds are infinite.
const HIGHEST: f64 = -1e-9;

/// Options of `orpo`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Orpo {
    /// Weight of the odds-ratio term relative to the fine-tuning loss (λ).
    #[schemars(range(min = 0))]
    pub weight: f64,
}

impl Default for Orpo {
    fn default() -> Self {
        Self { weight: 0.1 }
    }
}

impl PartOptions for Orpo {
    const KIND: &'static str = "orpo";
    const SUMMARY: &'static str = "fine-tuning on the chosen answer and a log odds ratio, without a reference (ORPO)";
    const DOC: &'static str = "P(y) = exp(log π(y)/|y|), the geometric mean over the tokens in the loss; odds =\n\
        P/(1 − P). Loss = −log π(chosen)/|chosen| − weight·log σ(log odds(chosen) − log\n\
        odds(rejected)). It contains the loss of fine-tuning, so it starts from a model that was not fine-tuned,\n\
        at rates between those of `sft` and of `dpo`. The reported rewards are weight·log odds. Only the\n\
        agent's tokens are in the sums (TRL's fine-tuning loss also has those of the prompt). log π/|y| is\n\
        taken to be at most −1e-9. Source: 2403.07691.";
    fn check(&self) -> Vec<OptionProblem> {
        OptionProblem::out_of_range("/weight", self.weight, 0.0..).into_iter().collect()
    }
}

impl RlPart for Orpo {}

impl PreferenceLoss for Orpo {
    fn value(&self, pair: &PreferencePair) -> PairTerm {
        let (chosen, rejected) = (log_odds(&pair.chosen), log_odds(&pair.rejected));
        let (penalty, slope) = logistic(chosen.value - rejected.value);
        let tokens = pair.chosen.tokens.max(1) as f64;
        PairTerm {
            loss: self.weight * penalty - pair.chosen.logprob / tokens,
            d_chosen: self.weight * slope * chosen.slope - 1.0 / tokens,
            d_rejected: -self.weight * slope * rejected.slope,
            chosen_reward: self.weight * chosen.value,
            rejected_reward: self.weight * rejected.value,
        }
    }
}

/// Log odds of an answer, and their derivative by its log-probability.
struct LogOdds {
    value: f64,
    slope: f64,
}

fn log_odds(answer: &PairAnswer) -> LogOdds {
    let tokens = answer.tokens.max(1) as f64;
    let mean = (answer.logprob / tokens).min(HIGHEST);
    let rest = -mean.exp_m1();
    LogOdds { value: mean - rest.ln(), slope: 1.0 / (rest * tokens) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_matches_hand_computation() {
        // Probabilities 0.8 and 0.5: odds 4 and 1.
        let pair = PreferencePair {
            chosen: PairAnswer { logprob: 2.0 * 0.8f64.ln(), reference: 0.0, tokens: 2 },
            rejected: PairAnswer { logprob: 3.0 * 0.5f64.ln(), reference: 0.0, tokens: 3 },
        };
        let found = Orpo { weight: 0.5 }.value(&pair);
        assert!((found.loss - (0.5 * 1.25f64.ln() - 0.8f64.ln())).abs() < 1e-14, "−log σ(log 4) = log 1.25");
        // d/d log-odds = −0.2·weight; 1/(1 − P) is 5 and 2, by 2 and 3 tokens.
        assert!((found.d_chosen - (-0.1 * 5.0 / 2.0 - 0.5)).abs() < 1e-14);
        assert!((found.d_rejected - 0.1 * 2.0 / 3.0).abs() < 1e-14);
        assert!((found.chosen_reward - 0.5 * 4f64.ln()).abs() < 1e-14 && found.rejected_reward.abs() < 1e-14);
    }

    #[test]
    fn certain_answers_stay_finite() {
        let at = |chosen: f64, rejected: f64| {
            let answer = |logprob: f64| PairAnswer { logprob, reference: 0.0, tokens: 4 };
            Orpo::default().value(&PreferencePair { chosen: answer(chosen), rejected: answer(rejected) })
        };
        for found in [at(0.0, -3.0), at(-3.0, 0.0), at(0.0, 0.0), at(-4e3, -4e3)] {
            assert!([found.loss, found.d_chosen, found.d_rejected].iter().all(|x| x.is_finite()), "{found:?}");
        }
    }
}
