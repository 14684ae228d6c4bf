//! Converts rollouts to the form that loss terms use: the columns of a [`LossBatch`].

use crate::contexts::by_context;
use std::collections::BTreeMap;
use trainyard_learn::corrections::Correction;
use trainyard_learn::{LossBatch, Rollout, TokenGrid};
use trainyard_lm::backend::TokenPosition;

/// Rollout of the update with the values added to it.
#[derive(Debug, Clone, Copy)]
pub struct UpdateSample<'a> {
    pub rollout: &'a Rollout,
    /// Advantage per token.
    pub advantages: &'a [f64],
    /// Target of the value model per token; `None` without a value model.
    pub returns: Option<&'a [f64]>,
    /// Factor of the aggregation weights (replay).
    pub weight: f64,
    /// Number of the group; rollouts of one group are compared with each other.
    pub group: usize,
    /// Share of verified answers in the group.
    pub pass_rate: f64,
}

impl<'a> UpdateSample<'a> {
    /// Returns the token ids of the whole sequence, prompt included.
    pub fn tokens(&self) -> &'a [u32] {
        &self.rollout.trajectory.token_ids
    }
    /// Returns per token whether it is in the loss.
    pub fn mask(&self) -> &'a [bool] {
        &self.rollout.mask
    }
    /// Returns whether any token is in the loss. The first token has no prediction.
    pub(super) fn learns(&self) -> bool {
        self.mask().iter().skip(1).any(|m| *m)
    }
}

/// One minibatch: its members, and the weight of every token.
pub(super) struct Minibatch<'a> {
    pub members: &'a [usize],
    pub weights: TokenGrid,
    pub seed: u64,
}

/// Model outputs at the positions of some samples under the current weights, in the order of the positions.
pub(super) struct CurrentOutputs {
    pub logprobs: Vec<f64>,
    pub entropies: Vec<f64>,
    pub values: Option<Vec<f64>>,
}

/// Log-probabilities that do not change during the update, by sample: those of the policy before the update, and those
/// of the reference policy.
pub(super) struct FixedLogprobs {
    pub proximal: Option<BTreeMap<usize, Vec<f64>>>,
    pub reference: Option<BTreeMap<usize, Vec<f64>>>,
}

#[expect(clippy::too_many_arguments, reason = "these are the columns of the batch; a struct would only rename them")]
pub(super) fn token_batch(
    samples: &[UpdateSample<'_>],
    ids: &[usize],
    weights: TokenGrid,
    places: &[TokenPosition],
    now: &CurrentOutputs,
    earlier: &FixedLogprobs,
    correction: &dyn Correction,
    seed: u64,
) -> LossBatch {
    let members = || ids.iter().map(|&i| &samples[i]);
    let spread = |values: &[f64]| -> TokenGrid {
        let mut grid: TokenGrid = members().map(|s| vec![0.0; s.tokens().len()]).collect();
        for (p, v) in places.iter().zip(values) {
            grid[p.sequence][p.token] = *v;
        }
        grid
    };
    let rows = |grid: &BTreeMap<usize, Vec<f64>>| -> TokenGrid { ids.iter().map(|i| grid[i].clone()).collect() };
    let behavior: TokenGrid = members().map(|s| s.rollout.old_logprobs.clone()).collect();
    let mask: Vec<Vec<bool>> = members().map(|s| s.rollout.mask.clone()).collect();
    let proximal = earlier.proximal.as_ref().map(rows);
    let correction = proximal.as_ref().map(|p| correction.weights(p, &behavior, &mask));
    LossBatch {
        logprobs: spread(&now.logprobs),
        old_logprobs: proximal.unwrap_or(behavior),
        advantages: members().map(|s| s.advantages.to_vec()).collect(),
        weights,
        correction,
        reference: earlier.reference.as_ref().map(rows),
        entropies: Some(spread(&now.entropies)),
        values: now.values.as_deref().map(spread),
        old_values: members().map(|s| s.rollout.values.clone()).collect(),
        returns: members().map(|s| s.returns.map(<[f64]>::to_vec)).collect(),
        groups: members().map(|s| s.group).collect(),
        rewards: members().map(|s| s.rollout.trajectory.reward).collect(),
        correct: members().map(|s| s.rollout.correct).collect(),
        pass_rates: members().map(|s| s.pass_rate).collect(),
        turns: members().map(|s| s.rollout.turns.iter().map(|t| (t.first, t.end)).collect()).collect(),
        seed,
        mask,
    }
}

/// Returns the positions of the tokens in the loss of some samples.
pub(super) fn places(samples: &[UpdateSample<'_>], ids: &[usize]) -> Vec<TokenPosition> {
    TokenPosition::from_masks(&ids.iter().map(|&i| samples[i].mask()).collect::<Vec<_>>())
}

/// Returns the sequences of some samples, one for each context, and `places` as positions in them.
pub(super) fn inputs<'a>(
    samples: &[UpdateSample<'a>],
    ids: &[usize],
    places: &[TokenPosition],
) -> (Vec<&'a [u32]>, Vec<TokenPosition>) {
    by_context(ids.iter().map(|&i| &samples[i].rollout.trajectory), places)
}

/// Returns the values of a grid at these positions.
pub(super) fn pick(grid: &TokenGrid, places: &[TokenPosition]) -> Vec<f64> {
    places.iter().map(|p| grid[p.sequence][p.token]).collect()
}
