//! Implements `nft`, maximum likelihood of correct answers and, for incorrect ones, of an implicit negative policy.
//!
//! The sampling policy is a mixture π_old = r·π⁺ + (1 − r)·π⁻ of a policy of correct and one of incorrect answers, with
//! r the pass rate of the problem. A model of the correct answers is therefore also a model of the incorrect ones, and
//! both can be learned by supervision (2505.18116). On the sampling policy the gradient equals that of GRPO or Dr.GRPO,
//! depending on the weight. Advantages are never read.

use super::{RatioSums, ratio, ratio_metrics};
use crate::batch::LossBatch;
use crate::part::{LossTerm, Needs, RlPart, TermValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Bound;
use trainyard_api::PartOptions;
use trainyard_core::{Chance, MetricInfo, OptionProblem, above};

/// Weight of the tokens of a problem with pass rate r.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Weight {
    /// sqrt((1 − r)/r), as in GRPO's advantages.
    Sqrt,
    /// 1 − r, as in Dr.GRPO's advantages.
    #[default]
    Linear,
    /// 1.
    None,
}

impl Weight {
    /// Returns the weight for a pass rate in (0, 1).
    pub fn of(self, rate: f64) -> f64 {
        match self {
            Self::Sqrt => ((1.0 - rate) / rate).sqrt(),
            Self::Linear => 1.0 - rate,
            Self::None => 1.0,
        }
    }
}

/// Options of `nft`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Nft {
    /// Weight by pass rate r: `sqrt` (sqrt((1 − r)/r)), `linear` (1 − r) or `none` (1).
    pub weight: Weight,
    /// Pass rates are clamped to at least this.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub rate_low: f64,
    /// Pass rates are clamped to at most this.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub rate_high: f64,
    /// Lower bound of the negative ratio of a wrong answer's token. A small value punishes a rising likelihood of wrong
    /// answers more.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub floor: f64,
    /// Placebo: right answers are learned as before, and the loss of wrong answers applies to rollouts drawn by chance,
    /// each with probability 1 − r.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_chance: bool,
}

impl Default for Nft {
    fn default() -> Self {
        Self { weight: Weight::Linear, rate_low: 0.02, rate_high: 0.98, floor: 1.0, by_chance: false }
    }
}

impl PartOptions for Nft {
    const KIND: &'static str = "nft";
    const SUMMARY: &'static str = "likelihood of right answers and of an implicit negative policy (NFT)";
    const DOC: &'static str = "R = π/π_old per token; r = pass rate of the group, clamped to rate_low..rate_high.\n\
        Token loss = w(r)·(−log R) if the final answer is correct, else w(r)·(−log q) with q = max((1 −\n\
        r·R)/(1 − r), floor). w = sqrt((1 − r)/r) (`sqrt`), 1 − r (`linear`) or 1 (`none`). The maximum is\n\
        straight-through, as released: a clamped q keeps the gradient r·R/((1 − r)·q) of its argument, so there\n\
        the loss is not the gradient's integral. For wrong answers the log-ratio is clamped to ±20. Multiplied by\n\
        the importance weight of a correction, if any.\n\n\
        At R = 1 the gradient is minus GRPO's advantages with population standard deviation (`sqrt`) or Dr.GRPO's\n\
        (`linear`). Needs groups; ignores advantages; leaves dropping groups without spread to the filter\n\
        `zero_variance`. Source: 2505.18116 (floor 1, linear in the released runs).";
    fn metrics() -> Vec<MetricInfo> {
        ratio_metrics()
    }
    fn check(&self) -> Vec<OptionProblem> {
        let rates = [("/rate_low", self.rate_low), ("/rate_high", self.rate_high)];
        let inside = (Bound::Excluded(0.0), Bound::Excluded(1.0));
        let mut problems: Vec<OptionProblem> =
            rates.into_iter().filter_map(|(at, rate)| OptionProblem::out_of_range(at, rate, inside)).collect();
        problems.extend(OptionProblem::reversed_bounds(("/rate_low", self.rate_low), ("/rate_high", self.rate_high)));
        problems.extend(OptionProblem::out_of_range("/floor", self.floor, above(0.0)));
        problems
    }
}

impl RlPart for Nft {
    fn needs(&self) -> Needs {
        Needs { groups: true, ..Needs::NONE }
    }
}

impl LossTerm for Nft {
    fn value(&self, b: &LossBatch) -> TermValue {
        let mut term = TermValue { d_logprobs: b.zeros(), ..TermValue::default() };
        let mut sums = RatioSums::default();
        for (i, t) in b.places() {
            let log_ratio = b.logprobs[i][t] - b.old_logprobs[i][t];
            let rate = b.pass_rates[i].clamp(self.rate_low, self.rate_high);
            let weight = b.weights[i][t] * b.importance(i, t) * self.weight.of(rate);
            let negative = if self.by_chance { Self::draw_negative(b, i, rate) } else { !b.correct[i] };
            let right = b.correct[i].then(|| NftTokenLoss::right(log_ratio));
            let wrong = negative.then(|| self.wrong(log_ratio, rate));
            let tokens = || right.iter().chain(&wrong);
            term.loss += weight * tokens().map(|token| token.loss).sum::<f64>();
            term.d_logprobs[i][t] = weight * tokens().map(|token| token.gradient).sum::<f64>();
            sums.add(ratio(log_ratio).0, tokens().any(|token| token.clamped));
        }
        term.sums = sums.named();
        term
    }
}

/// Unweighted loss of one token, and its gradient by the logprob.
struct NftTokenLoss {
    loss: f64,
    gradient: f64,
    clamped: bool,
}

impl NftTokenLoss {
    fn right(log_ratio: f64) -> Self {
        Self { loss: -log_ratio, gradient: -1.0, clamped: false }
    }
}

impl Nft {
    /// Draws whether a rollout counts as incorrect. The key of the draw is the rollout's log-probabilities, so the
    /// division of a minibatch into micro-batches does not change it.
    fn draw_negative(b: &LossBatch, i: usize, rate: f64) -> bool {
        let key = b.old_logprobs[i].iter().fold(0_u64, |key, x| key.rotate_left(7) ^ x.to_bits());
        Chance::new(b.seed).at("nft by chance", &[key]).uniform() >= rate
    }

    fn wrong(&self, log_ratio: f64, rate: f64) -> NftTokenLoss {
        let (rho, slope) = ratio(log_ratio);
        let negative = (1.0 - rate * rho) / (1.0 - rate);
        let q = negative.max(self.floor);
        NftTokenLoss { loss: -q.ln(), gradient: rate * slope / ((1.0 - rate) * q), clamped: q > negative }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advantages::group::GroupAdvantage;
    use crate::advantages::group::{AdvantageScale, Center};
    use crate::batch::{Batch, Group, Rollout};
    use crate::losses::differences::{assert_gradients, batch};
    use crate::part::Advantage as _;
    use trainyard_tables::Trajectory;

    /// Returns a batch of one token with this probability ratio, pass rate and correctness.
    fn one(ratio: f64, rate: f64, correct: bool) -> LossBatch {
        LossBatch {
            mask: vec![vec![true]],
            logprobs: vec![vec![ratio.ln() - 1.0]],
            old_logprobs: vec![vec![-1.0]],
            weights: vec![vec![1.0]],
            correct: vec![correct],
            pass_rates: vec![rate],
            ..LossBatch::default()
        }
    }

    #[test]
    fn loss_matches_hand_computation() {
        let part = Nft { weight: Weight::None, floor: 0.1, ..Nft::default() };
        let close = |b: LossBatch, loss: f64, gradient: f64, held: f64| {
            let term = part.value(&b);
            assert!((term.loss - loss).abs() < 1e-12 && (term.d_logprobs[0][0] - gradient).abs() < 1e-12, "{term:?}");
            assert_eq!(term.sums[0], ("fraction", held));
        };
        close(one(2.0, 0.25, true), -(2f64.ln()), -1.0, 0.0);
        // q = (1 − 0.25·2)/0.75 = 2/3, gradient 0.25·2/(0.75·2/3) = 1.
        close(one(2.0, 0.25, false), -(2f64 / 3.0).ln(), 1.0, 0.0);
        // (1 − 0.25·5)/0.75 is negative: clamped to 0.1, gradient 0.25·5/(0.75·0.1).
        close(one(5.0, 0.25, false), -(0.1f64.ln()), 1.25 / 0.075, 1.0);
        // The gradient of incorrect answers that became unlikely is smaller.
        close(one(0.5, 0.5, false), -(1.5f64.ln()), 0.25 / 0.75, 0.0);
    }

    #[test]
    fn pass_rates_are_clamped() {
        for (rate, held) in [(0.0, 0.02), (1.0, 0.98)] {
            for correct in [true, false] {
                let of = |rate: f64| Nft { weight: Weight::Sqrt, ..Nft::default() }.value(&one(0.9, rate, correct));
                assert_eq!(of(rate), of(held));
                assert!(of(rate).loss.is_finite());
            }
        }
    }

    /// In groups of `size` rollouts, of which `right` pass, the gradient on the policy equals minus the advantages of
    /// `group`.
    #[test]
    fn gradient_on_the_policy_equals_grpo_or_dr_grpo() {
        for (size, right) in [(2usize, 1usize), (8, 1), (8, 3), (8, 7), (16, 5)] {
            let passed: Vec<bool> = (0..size).map(|s| s < right).collect();
            let rollout = |&p: &bool| Rollout {
                mask: vec![true, true],
                trajectory: Trajectory { reward: f64::from(u8::from(p)), ..Trajectory::default() },
                correct: p,
                ..Rollout::default()
            };
            let groups = vec![Group { rollouts: passed.iter().map(rollout).collect(), ..Group::default() }];
            let b = LossBatch {
                mask: vec![vec![true, true]; size],
                logprobs: vec![vec![-1.0, -0.3]; size],
                old_logprobs: vec![vec![-1.0, -0.3]; size],
                weights: vec![vec![0.5, 0.25]; size],
                pass_rates: vec![right as f64 / size as f64; size],
                correct: passed,
                ..LossBatch::default()
            };
            let all = Batch { step: 0, groups };
            for (weight, scale) in [(Weight::Sqrt, AdvantageScale::Group), (Weight::Linear, AdvantageScale::None)] {
                let advantages = GroupAdvantage { center: Center::Group, scale, ddof: 0, epsilon: 0.0 }.assign(&all);
                for floor in [1.0, 0.01] {
                    let term = Nft { weight, floor, ..Nft::default() }.value(&b);
                    for (i, t) in b.places() {
                        let want = -b.weights[i][t] * advantages[i][t];
                        assert!(
                            (term.d_logprobs[i][t] - want).abs() < 1e-12,
                            "{right} of {size}: {} {want}",
                            term.d_logprobs[i][t]
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn gradients_are_finite_differences_where_nothing_is_clamped() {
        // r·R is at most 0.1·e^1.9 < 0.7.
        for (seed, weight) in [(1, Weight::Sqrt), (2, Weight::Linear), (3, Weight::None)] {
            let part = Nft { weight, floor: 0.01, ..Nft::default() };
            let b = LossBatch { pass_rates: vec![0.1, 0.1, 0.05], correct: vec![false, true, false], ..batch(seed) };
            assert_gradients(&part, &b);
            assert_gradients(&part, &LossBatch { correction: Some(batch(8).advantages), ..b });
        }
    }

    #[test]
    fn placebo_draws_negatives_at_random() {
        let part = Nft { weight: Weight::None, by_chance: true, floor: 0.1, ..Nft::default() };
        let gradients: Vec<f64> =
            (0..400).map(|seed| part.value(&LossBatch { seed, ..one(1.0, 0.25, true) }).d_logprobs[0][0]).collect();
        // Correct: −1; also drawn as incorrect: −1 + 0.25/0.75.
        let drawn = gradients.iter().filter(|g| (**g + 2.0 / 3.0).abs() < 1e-12).count();
        assert_eq!(gradients.iter().filter(|g| (**g + 1.0).abs() < 1e-12).count() + drawn, 400);
        assert!((260..340).contains(&drawn), "{drawn} of 400, where 300 are expected");
        let plain = Nft { by_chance: false, ..part.clone() };
        assert_eq!(plain.value(&one(1.0, 0.25, true)).d_logprobs[0][0], -1.0);
    }

    #[test]
    fn advantages_are_ignored() {
        let b = batch(4);
        let other = LossBatch { advantages: b.zeros(), ..b.clone() };
        assert_eq!(Nft::default().value(&b), Nft::default().value(&other));
    }

    #[test]
    fn options_are_checked() {
        assert!(Nft::default().check().is_empty());
        for wrong in [
            Nft { rate_low: 0.0, ..Nft::default() },
            Nft { rate_high: 1.0, ..Nft::default() },
            Nft { rate_low: 0.6, rate_high: 0.4, ..Nft::default() },
            Nft { floor: 0.0, ..Nft::default() },
        ] {
            assert!(!wrong.check().is_empty());
        }
    }
}
