//! Implements `entropy_modulated` (EMPG), which enlarges the advantages of confident turns, reduces those of uncertain
//! turns, and adds a bonus to turns that lead to a confident one.
//!
//! The gradient of a softmax policy grows with its entropy, so plain advantages move uncertain turns most, whether they
//! are correct or not. The factor reverses this effect and keeps the mean size of the update (2509.09265).

use crate::batch::{Batch, Rollout, TokenGrid};
use crate::part::{Modulation, Needs, RlPart};
use crate::statistics::mean;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_api::PartOptions;
use trainyard_core::{MetricInfo, OptionProblem, Reduce};

/// Options of `entropy_modulated`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EntropyModulation {
    /// Decay rate of the factor with the turn's entropy; 0 = factor 1.
    #[schemars(range(min = 0))]
    pub k: f64,
    /// Decay rate of the bonus with the next turn's entropy.
    #[schemars(range(min = 0))]
    pub future_k: f64,
    /// Size of the bonus; 0 = none.
    #[schemars(range(min = 0))]
    pub zeta: f64,
    /// Standard deviation of the last batch's factors, reported as a metric; `None` without turns.
    #[serde(skip)]
    last_spread: Option<f64>,
    /// Factor difference of the last batch, reported as a metric.
    #[serde(skip)]
    last_tilt: Option<f64>,
}

impl Default for EntropyModulation {
    fn default() -> Self {
        Self { k: 1.0, future_k: 1.0, zeta: 0.05, last_spread: None, last_tilt: None }
    }
}

impl PartOptions for EntropyModulation {
    const KIND: &'static str = "entropy_modulated";
    const SUMMARY: &'static str = "larger advantages for confident turns, and a bonus for clarity ahead (EMPG)";
    const DOC: &'static str = "H_t = mean entropy of the tokens of turn t in the loss; H~ = (H − min)/(max − min)\n\
        over all turns of the batch (0 if all are equal). g_t = exp(−k·H~_t) / mean of exp(−k·H~) over all\n\
        turns, so its mean is 1. f_t = exp(−future_k·H~_t). For every token of turn t, A ← A·g_t +\n\
        zeta·f_{t+1}, without the second term in the last turn of a rollout. Then the mean over all turns of the\n\
        batch is subtracted; each turn counts once whatever its length, as in the paper's code. Turns without a token\n\
        in the loss are ignored.\n\n\
        Needs entropies. Source: 2509.09265.";
    fn metrics() -> Vec<MetricInfo> {
        vec![
            MetricInfo::new("spread", "factor", "Standard deviation of the factor over turns.")
                .reduced_by(Reduce::LastTenth)
                .optional()
                .former_name("modulation_spread"),
            MetricInfo::new("tilt", "factor", "Mean factor of turns of at most mean entropy minus that of the others.")
                .reduced_by(Reduce::LastTenth)
                .optional()
                .former_name("modulation_tilt"),
        ]
    }
    fn check(&self) -> Vec<OptionProblem> {
        let named = [("/k", self.k), ("/future_k", self.future_k), ("/zeta", self.zeta)];
        named.into_iter().filter_map(|(at, value)| OptionProblem::out_of_range(at, value, 0.0..)).collect()
    }
}

impl RlPart for EntropyModulation {
    fn needs(&self) -> Needs {
        Needs { rollout_entropies: true, ..Needs::NONE }
    }
}

impl Modulation for EntropyModulation {
    fn apply(&mut self, batch: &Batch, advantages: &mut TokenGrid) {
        let steps: Vec<Vec<TurnEntropy>> = batch.rollouts().map(steps).collect();
        let entropies = normalized(&steps.iter().flatten().map(|s| s.entropy).collect::<Vec<_>>());
        if entropies.is_empty() {
            (self.last_spread, self.last_tilt) = (None, None);
            return;
        }
        let factors = self.factors(&entropies);
        let n = factors.len() as f64;
        self.last_spread = Some((factors.iter().map(|g| (g - 1.0).powi(2)).sum::<f64>() / n).sqrt());
        self.last_tilt = tilt(&entropies, &factors);
        let mut sum = 0.0;
        let mut place = 0;
        for (steps, row) in steps.iter().zip(advantages.iter_mut()) {
            for (i, step) in steps.iter().enumerate() {
                let bonus =
                    if i + 1 < steps.len() { self.zeta * (-self.future_k * entropies[place + 1]).exp() } else { 0.0 };
                for &t in &step.tokens {
                    row[t] = row[t] * factors[place] + bonus;
                }
                sum += step.tokens.iter().map(|&t| row[t]).sum::<f64>() / step.tokens.len() as f64;
                place += 1;
            }
        }
        for (steps, row) in steps.iter().zip(advantages) {
            for &t in steps.iter().flat_map(|s| &s.tokens) {
                row[t] -= sum / n;
            }
        }
    }
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        self.last_spread.map(|s| ("spread", s)).into_iter().chain(self.last_tilt.map(|t| ("tilt", t))).collect()
    }
}

impl EntropyModulation {
    /// Returns one factor per normalized entropy, with mean 1.
    fn factors(&self, entropies: &[f64]) -> Vec<f64> {
        let raw: Vec<f64> = entropies.iter().map(|h| (-self.k * h).exp()).collect();
        let mean = mean(&raw).unwrap_or(1.0);
        raw.iter().map(|g| g / mean).collect()
    }
}

/// Returns the mean factor of turns with at most the mean entropy minus that of the others, or `None` if all entropies
/// are equal.
fn tilt(entropies: &[f64], factors: &[f64]) -> Option<f64> {
    let center = mean(entropies)?;
    let mean_of = |low: bool| {
        let of: Vec<f64> =
            entropies.iter().zip(factors).filter(|(h, _)| (**h <= center) == low).map(|(_, g)| *g).collect();
        mean(&of)
    };
    Some(mean_of(true)? - mean_of(false)?)
}

/// Turn with tokens in the loss.
struct TurnEntropy {
    tokens: Vec<usize>,
    /// Mean entropy of its tokens.
    entropy: f64,
}

fn steps(rollout: &Rollout) -> Vec<TurnEntropy> {
    let entropies = rollout.entropies.as_ref().expect("`needs` includes entropies");
    let step = |(first, end): (usize, usize)| {
        let tokens: Vec<usize> = (first..end.min(rollout.mask.len())).filter(|&t| rollout.mask[t]).collect();
        let entropy = tokens.iter().map(|&t| entropies[t]).sum::<f64>() / tokens.len() as f64;
        if tokens.is_empty() { None } else { Some(TurnEntropy { tokens, entropy }) }
    };
    rollout.turns.iter().filter_map(|t| step((t.first, t.end))).collect()
}

/// Maps the entropies linearly onto 0..1; all 0 if they are equal.
fn normalized(entropies: &[f64]) -> Vec<f64> {
    let least = entropies.iter().copied().fold(f64::INFINITY, f64::min);
    let range = entropies.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least;
    entropies.iter().map(|h| if range > 0.0 { (h - least) / range } else { 0.0 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Group, TurnSummary};

    /// Returns a rollout of a prompt token, then turns separated by an observation token.
    fn rollout(turns: &[&[f64]]) -> Rollout {
        let mut r = Rollout { mask: vec![false], entropies: Some(vec![0.0]), ..Rollout::default() };
        let entropies = r.entropies.as_mut().unwrap();
        for (k, turn) in turns.iter().enumerate() {
            if k > 0 {
                r.mask.push(false);
                entropies.push(0.0);
            }
            let first = r.mask.len();
            r.mask.extend(turn.iter().map(|_| true));
            entropies.extend_from_slice(turn);
            r.turns.push(TurnSummary { first, end: r.mask.len(), ..TurnSummary::default() });
        }
        r
    }
    fn batch(rollouts: Vec<Rollout>) -> Batch {
        Batch { step: 0, groups: vec![Group { rollouts, ..Group::default() }] }
    }
    fn near(found: &[f64], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        assert!(found.iter().zip(expected).all(|(f, w)| (f - w).abs() < 1e-12), "{found:?} is not {expected:?}");
    }

    #[test]
    fn two_rollouts_of_two_turns_match_hand_computation() {
        // Entropies of turns 0.1, 0.9 and 0.9, 0.1; with k = ln 2 the factors are 1, ½, ½, 1 over their mean ¾.
        let batch = batch(vec![rollout(&[&[0.0, 0.2], &[0.9]]), rollout(&[&[0.9], &[0.1]])]);
        let mut a = batch.spread(&[1.0, -1.0]);
        let mut part =
            EntropyModulation { k: 2.0f64.ln(), future_k: 2.0f64.ln(), zeta: 0.3, ..EntropyModulation::default() };
        part.apply(&batch, &mut a);
        // Turns before centering: 4/3 + 0.15, 2/3, −2/3 + 0.3, −4/3; their mean is 0.1125.
        let c = 0.1125;
        near(&a[0], &[0.0, 4.0 / 3.0 + 0.15 - c, 4.0 / 3.0 + 0.15 - c, 0.0, 2.0 / 3.0 - c]);
        near(&a[1], &[0.0, -2.0 / 3.0 + 0.3 - c, 0.0, -4.0 / 3.0 - c]);
        assert!((part.metrics()[0].1 - 1.0 / 3.0).abs() < 1e-12 && part.metrics()[0].0 == "spread");
    }

    #[test]
    fn factors_have_mean_one_and_fall_with_entropy() {
        let entropies = normalized(&[0.3, 2.0, 0.7, 1.1, 0.2]);
        assert_eq!((entropies[4], entropies[1]), (0.0, 1.0));
        for k in [0.0, 0.5, 1.0, 4.0] {
            let g = EntropyModulation { k, ..EntropyModulation::default() }.factors(&entropies);
            assert!((g.iter().sum::<f64>() / 5.0 - 1.0).abs() < 1e-12);
            assert!(
                k == 0.0 || (g[4] > g[0] && g[0] > g[2] && g[2] > g[3] && g[3] > g[1] && g[4] > 1.0 && g[1] < 1.0),
                "{g:?}"
            );
            assert!(k > 0.0 || g.iter().all(|g| *g == 1.0));
        }
    }

    #[test]
    fn confident_turns_are_amplified_whatever_their_sign() {
        let batch = batch(vec![rollout(&[&[0.0], &[1.0]]), rollout(&[&[0.0], &[1.0]])]);
        let mut a = batch.spread(&[1.0, -1.0]);
        EntropyModulation { zeta: 0.0, ..EntropyModulation::default() }.apply(&batch, &mut a);
        assert!(a[0][1] > 1.0 && a[0][3] < 1.0 && a[1][1] < -1.0 && a[1][3] > -1.0, "{a:?}");
    }

    #[test]
    fn equal_entropies_only_subtract_the_mean() {
        let batch = batch(vec![rollout(&[&[0.4], &[0.4, 0.4]]), rollout(&[&[0.4]])]);
        let mut a = batch.spread(&[1.0, -2.0]);
        let mut part = EntropyModulation { zeta: 0.0, ..EntropyModulation::default() };
        part.apply(&batch, &mut a);
        near(&a[0], &[0.0, 1.0, 0.0, 1.0, 1.0]);
        near(&a[1], &[0.0, -2.0]);
        assert_eq!(part.metrics(), [("spread", 0.0)]);
    }

    #[test]
    fn turns_outside_the_loss_do_not_count() {
        let mut masked = rollout(&[&[0.0], &[9.0]]);
        masked.mask[3] = false;
        let batch = batch(vec![masked, rollout(&[&[1.0]])]);
        let mut a = batch.spread(&[1.0, 1.0]);
        let mut part = EntropyModulation { k: 2.0f64.ln(), zeta: 0.6, ..EntropyModulation::default() };
        part.apply(&batch, &mut a);
        // Factors 4/3 and 2/3, no bonus: the next turn is not in the loss.
        near(&a[0], &[0.0, 1.0 / 3.0, 0.0, 0.0]);
        near(&a[1], &[0.0, -1.0 / 3.0]);
        part.apply(&Batch::default(), &mut TokenGrid::new());
        assert!(part.metrics().is_empty());
    }

    #[test]
    fn negative_constants_are_rejected() {
        assert_eq!(EntropyModulation { zeta: -0.1, ..EntropyModulation::default() }.check()[0].pointer, "/zeta");
        assert!(!EntropyModulation { k: f64::NAN, ..EntropyModulation::default() }.check().is_empty());
    }
}
