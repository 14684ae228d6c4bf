//! Implements `entropy_smoothing` (EPO), an entropy bonus with a penalty outside a band around the policy's past
//! entropy.
//!
//! Over many turns with a reward at the end, entropy explodes early or collapses late, and a plain bonus amplifies the
//! explosion. The center of the band is a running mean over all past steps, per turn (2509.22576). The released penalty
//! is a constant per token outside the band and has no gradient; this penalty is the distance to the band.

use crate::batch::{Batch, LossBatch};
use crate::part::{LossTerm, Needs, Progress, RlPart, TermValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use trainyard_api::PartOptions;
use trainyard_core::{Error, MetricInfo, OptionProblem, Reduce, Result};

/// Options of `entropy_smoothing`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EntropySmoothing {
    /// Weight of bonus and penalty.
    #[schemars(range(min = 0))]
    pub weight: f64,
    /// Lower end of the band, as a multiple of the running mean.
    #[schemars(range(min = 0))]
    pub low: f64,
    /// Upper end of the band, as a multiple of the running mean.
    #[schemars(range(min = 0))]
    pub high: f64,
    /// Weight of the penalty relative to the bonus in the first step.
    #[schemars(range(min = 0))]
    pub beta_start: f64,
    /// Weight of the penalty relative to the bonus in the last step. Above 1, entropy above the band falls.
    #[schemars(range(min = 0))]
    pub beta_end: f64,
    /// Null: the penalty's weight moves linearly from beta_start to beta_end. A number: its difference to beta_end
    /// decays by exp(−decay) within half the run.
    pub decay: Option<f64>,
    #[serde(skip)]
    state: RunningMeans,
}

/// State that later steps depend on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct RunningMeans {
    /// Turn → mean entropies of past steps.
    turns: BTreeMap<usize, EntropyHistory>,
    /// Turn → running mean before this step.
    anchors: BTreeMap<usize, f64>,
    /// Weight of the penalty in this step.
    beta: f64,
}

/// Past steps in which a turn was sampled.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
struct EntropyHistory {
    steps: u64,
    /// Sum of per-step mean entropies.
    sum: f64,
}

impl Default for EntropySmoothing {
    fn default() -> Self {
        Self {
            weight: 0.001,
            low: 0.0,
            high: 2.0,
            beta_start: 2.0,
            beta_end: 1.0,
            decay: None,
            state: RunningMeans::default(),
        }
    }
}

impl PartOptions for EntropySmoothing {
    const KIND: &'static str = "entropy_smoothing";
    const SUMMARY: &'static str = "entropy bonus in a band around its running mean per turn (EPO)";
    const DOC: &'static str = "Token loss = −weight·(H − β·P) with P = [low·H̄ − H]⁺ + [H −\n\
        high·H̄]⁺ in nats. H is the entropy of the current policy at the token's position; H̄ is the mean, over\n\
        all past steps with equal weight, of the mean entropy at sampling time of the token's turn, without tokens of\n\
        demonstrations. Where there is no H̄ yet, P = 0. β moves linearly from beta_start in the first step to\n\
        beta_end in the last; with `decay` γ it is β = beta_end + (beta_start −\n\
        beta_end)·exp(−γ·k/⌊K/2⌋) in step k of K. Published: 1 + exp(−γ·k/⌊K/2⌋), that is beta_start\n\
        2 and beta_end 1.\n\n\
        The paper's α is part of β. The released code gives a constant instead of P, which has no gradient. The\n\
        paper writes P with one H̄ for all turns; its code and this part have one per turn. Source: 2509.22576 (band\n\
        0..2 and weight 0.001 in the reported runs). State: the running means.";
    fn metrics() -> Vec<MetricInfo> {
        vec![
            MetricInfo::new("outside_band", "share", "Share of tokens whose entropy is outside of the band.")
                .reduced_by(Reduce::Whole)
                .optional()
                .former_name("outside_band"),
            MetricInfo::new(
                "entropy_lowered",
                "share",
                "Share of tokens whose entropy the term lowers; a plain bonus lowers none.",
            )
            .reduced_by(Reduce::Whole)
            .optional()
            .former_name("entropy_lowered"),
        ]
    }
    fn check(&self) -> Vec<OptionProblem> {
        let named = [
            ("/weight", self.weight),
            ("/low", self.low),
            ("/high", self.high),
            ("/beta_start", self.beta_start),
            ("/beta_end", self.beta_end),
            ("/decay", self.decay.unwrap_or(0.0)),
        ];
        let outside = named.into_iter().filter_map(|(at, value)| OptionProblem::out_of_range(at, value, 0.0..));
        outside.chain(OptionProblem::reversed_bounds(("/low", self.low), ("/high", self.high))).collect()
    }
}

impl RlPart for EntropySmoothing {
    fn needs(&self) -> Needs {
        Needs { entropies: true, rollout_entropies: true, ..Needs::NONE }
    }
    fn save(&self) -> Value {
        json!(self.state)
    }
    fn load(&mut self, state: Value) -> Result<()> {
        self.state = serde_json::from_value(state)
            .map_err(|e| Error::data(format!("state of loss term `entropy_smoothing`: {e}")))?;
        Ok(())
    }
}

impl LossTerm for EntropySmoothing {
    fn begin(&mut self, batch: &Batch, progress: Progress) {
        self.state.anchors =
            self.state.turns.iter().map(|(turn, past)| (*turn, past.sum / past.steps as f64)).collect();
        self.state.beta = self.beta(progress);
        for (turn, mean) in means(batch) {
            let past = self.state.turns.entry(turn).or_default();
            past.steps += 1;
            past.sum += mean;
        }
    }
    fn value(&self, b: &LossBatch) -> TermValue {
        let entropies = b.entropies.as_ref().expect("`needs` includes entropies");
        let mut slopes = b.zeros();
        let mut term = TermValue { d_logprobs: b.zeros(), ..TermValue::default() };
        let (mut outside, mut lowered) = (0.0, 0.0);
        for (i, t) in b.places() {
            let entropy = entropies[i][t];
            let turn = b.turns[i].iter().position(|&(first, end)| (first..end).contains(&t));
            let anchor = turn.and_then(|turn| self.state.anchors.get(&turn));
            let (distance, side) = anchor.map_or((0.0, 0.0), |mean| self.band_distance(entropy, *mean));
            let weight = self.weight * b.weights[i][t];
            term.loss -= weight * (entropy - self.state.beta * distance);
            slopes[i][t] = -weight * (1.0 - self.state.beta * side);
            outside += f64::from(u8::from(distance > 0.0));
            lowered += f64::from(u8::from(slopes[i][t] > 0.0));
        }
        term.d_entropies = Some(slopes);
        term.sums = vec![("outside_band", outside), ("entropy_lowered", lowered)];
        term
    }
}

impl EntropySmoothing {
    fn beta(&self, progress: Progress) -> f64 {
        let factor = match self.decay {
            Some(decay) => (-decay * progress.step as f64 / (progress.steps / 2).max(1) as f64).exp(),
            None => 1.0 - (progress.step as f64 / progress.steps.saturating_sub(1).max(1) as f64).min(1.0),
        };
        self.beta_end + (self.beta_start - self.beta_end) * factor
    }
    /// Returns the distance to the band around a mean, and its derivative.
    fn band_distance(&self, entropy: f64, mean: f64) -> (f64, f64) {
        let (low, high) = (self.low * mean, self.high * mean);
        if entropy < low {
            (low - entropy, -1.0)
        } else if entropy > high {
            (entropy - high, 1.0)
        } else {
            (0.0, 0.0)
        }
    }
}

/// Returns the mean entropy at sampling time of each turn's tokens in the loss, over the whole batch.
fn means(batch: &Batch) -> BTreeMap<usize, f64> {
    let mut sums: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
    for rollout in batch.rollouts() {
        let Some(entropies) = &rollout.entropies else { continue };
        for (turn, summary) in rollout.turns.iter().enumerate() {
            for t in (summary.first.max(rollout.given)..summary.end).filter(|t| rollout.mask[*t]) {
                let (sum, tokens) = sums.entry(turn).or_default();
                *sum += entropies[t];
                *tokens += 1.0;
            }
        }
    }
    sums.into_iter().map(|(turn, (sum, tokens))| (turn, sum / tokens)).collect()
}

#[cfg(test)]
#[path = "entropy_smoothing_tests.rs"]
mod tests;
