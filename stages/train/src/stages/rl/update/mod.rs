//! Updates the policy: minibatches of rollouts, loss terms on plain numbers, gradients through the trainer.
//!
//! Aggregation weights are computed once per minibatch, so micro-batches only limit memory. A term whose scope is the
//! whole minibatch gets all log-probabilities first; other terms are evaluated micro-batch by micro-batch, without a
//! second forward pass.

mod columns;
mod permuted;
mod sums;
#[cfg(test)]
mod tests;

pub use columns::UpdateSample;
pub use sums::UpdateReport;

use super::critic::Critic;
use crate::optimize::{ModelTrainer, micro_batches};
use columns::{CurrentOutputs, FixedLogprobs, Minibatch, inputs, pick, places, token_batch};
use std::collections::BTreeMap;
use sums::{LossTotal, Sums};
use trainyard_api::curves::finite;
use trainyard_core::{Chance, Result};
use trainyard_learn::corrections::Correction;
use trainyard_learn::{Aggregate, LossTerm, TermScope, TokenGrid};
use trainyard_lm::backend::OutputGradients;
use trainyard_tables::Trajectory;

/// Inputs and options of an update.
pub struct PolicyUpdate<'a> {
    /// Loss terms; their sum is minimized.
    pub terms: &'a [Box<dyn LossTerm>],
    /// Prefix of each term's metrics.
    pub prefixes: &'a [String],
    /// Importance weights for samples of other weights.
    pub correction: &'a dyn Correction,
    /// Whether the policy before the update recomputes old log-probabilities, regardless of the correction. If another
    /// engine sampled, its rounding would otherwise enter every ratio.
    pub recompute: bool,
    /// Aggregation of token losses to one number.
    pub aggregate: Aggregate,
    /// Denominator of `sum_over_horizon`-like aggregations, in tokens.
    pub horizon: Option<usize>,
    /// Passes over the samples.
    pub epochs: u64,
    /// Optimizer steps per pass.
    pub minibatches: usize,
    /// Whether every optimizer step but the first permutes advantages among its rollouts.
    pub reuse_by_chance: bool,
    /// Number of tokens computed together, which limits memory and changes results only by rounding.
    pub micro_batch_tokens: usize,
    /// Sampling temperature that log-probabilities are computed at.
    pub temperature: f64,
    /// Policy that `kl` measures the distance from, if a term needs it.
    pub reference: Option<&'a ModelTrainer>,
    /// Source of the order of samples.
    pub chance: Chance,
    /// Step of the stage, from 0, for error messages.
    pub step: u64,
}

impl PolicyUpdate<'_> {
    /// Runs all epochs and minibatches and returns the report. Samples without a token in the loss are left out.
    ///
    /// Errors: data, naming the step, if a loss or a gradient is not finite.
    pub fn run(
        &self,
        trainer: &mut ModelTrainer,
        mut critic: Option<&mut Critic>,
        samples: &[UpdateSample<'_>],
    ) -> Result<UpdateReport> {
        let used: Vec<usize> = (0..samples.len()).filter(|&i| samples[i].learns()).collect();
        if used.is_empty() {
            return Ok(UpdateReport::default());
        }
        let recomputes = self.recompute || self.correction.recomputes();
        let proximal = if recomputes { Some(self.logprobs_of(trainer, samples, &used)?) } else { None };
        let reference = self.reference.map(|r| self.logprobs_of(r, samples, &used)).transpose()?;
        let earlier = FixedLogprobs { proximal, reference };
        let mut sums = Sums::default();
        let owned: Vec<TokenGrid>;
        let permuted = if self.reuse_by_chance {
            let updates = self.epochs * self.minibatches as u64;
            owned = (1..updates).map(|n| permuted::advantages(samples, &used, &self.permutation(n))).collect();
            owned.iter().map(|grid| permuted::samples(samples, grid)).collect()
        } else {
            Vec::new()
        };
        let mut update = 0;
        for epoch in 0..self.epochs {
            let order = self.order(samples, &used, epoch);
            for (n, members) in order.iter().enumerate() {
                let masks: Vec<Vec<bool>> = members.iter().map(|&i| samples[i].rollout.mask.clone()).collect();
                let mut weights = self.aggregate.weights(&masks, self.horizon);
                for (row, &i) in weights.iter_mut().zip(members) {
                    row.iter_mut().for_each(|w| *w *= samples[i].weight);
                }
                let seed = self.chance.at("loss terms", &[self.step, epoch, n as u64]).next_u64();
                let minibatch = Minibatch { members, weights, seed };
                let now = if update == 0 { samples } else { permuted.get(update - 1).map_or(samples, Vec::as_slice) };
                update += 1;
                self.minibatch(trainer, critic.as_deref_mut(), now, &minibatch, &earlier, &mut sums)?;
            }
        }
        Ok(sums.report(self.prefixes))
    }

    /// Returns the random source of the permutation of one optimizer step.
    fn permutation(&self, update: u64) -> Chance {
        self.chance.child("reuse by chance", &[self.step, update])
    }

    /// Returns the members of every minibatch of an epoch. If a term compares within groups, minibatches contain whole
    /// groups.
    fn order(&self, samples: &[UpdateSample<'_>], used: &[usize], epoch: u64) -> Vec<Vec<usize>> {
        let mut draws = self.chance.at("minibatches", &[self.step, epoch]);
        let whole_groups = self.terms.iter().any(|t| t.scope() == TermScope::Minibatch && t.needs().groups);
        let mut units: Vec<Vec<usize>> = used.iter().map(|&i| vec![i]).collect();
        if whole_groups {
            let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
            used.iter().for_each(|&i| groups.entry(samples[i].group).or_default().push(i));
            units = groups.into_values().collect();
        }
        draws.shuffle(&mut units);
        shares(&units, self.minibatches).iter().map(|share| share.concat()).collect()
    }

    fn minibatch(
        &self,
        trainer: &mut ModelTrainer,
        mut critic: Option<&mut Critic>,
        samples: &[UpdateSample<'_>],
        batch: &Minibatch<'_>,
        earlier: &FixedLogprobs,
        sums: &mut Sums,
    ) -> Result<()> {
        let members = batch.members;
        let lengths: Vec<usize> = members.iter().map(|&i| samples[i].tokens().len()).collect();
        let minibatch_total = if self.terms.iter().any(|t| t.scope() == TermScope::Minibatch) {
            Some(self.whole(trainer, critic.as_deref(), samples, batch, earlier)?)
        } else {
            None
        };
        sums.weigh(&batch.weights);
        let mut loss = 0.0;
        for part in micro_batches(&lengths, self.micro_batch_tokens) {
            let ids: Vec<usize> = part.iter().map(|&k| members[k]).collect();
            let places = places(samples, &ids);
            let (tokens, within) = inputs(samples, &ids, &places);
            let outputs = trainer.forward(&tokens, &within, self.temperature)?;
            let values = critic.as_deref_mut().map(|c| c.forward(&tokens, &within)).transpose()?;
            sums.sampled(&outputs.entropies);
            let now = outputs.logprobs.clone();
            let total = match &minibatch_total {
                Some(all) => all.rows(&part),
                None => {
                    let weights: TokenGrid = part.iter().map(|&k| batch.weights[k].clone()).collect();
                    let current = CurrentOutputs { logprobs: outputs.logprobs, entropies: outputs.entropies, values };
                    let batch =
                        token_batch(samples, &ids, weights, &places, &current, earlier, self.correction, batch.seed);
                    LossTotal::of(self.terms, &batch, sums)
                }
            };
            loss += finite(total.loss, "the policy loss", self.step)?;
            let logprobs = pick(&total.logprobs, &places);
            let entropies = total.entropies.as_ref().map(|grid| pick(grid, &places)).unwrap_or_default();
            sums.silent(&logprobs);
            for ((place, slope), logprob) in places.iter().zip(&logprobs).zip(&now) {
                sums.learned(*slope, *logprob, place.token < samples[ids[place.sequence]].rollout.given);
            }
            trainer.backward(&OutputGradients { logprobs: &logprobs, entropies: &entropies, values: &[] })?;
            if let (Some(critic), Some(slopes)) = (critic.as_deref_mut(), &total.values) {
                critic.backward(&pick(slopes, &places))?;
            }
        }
        if let Some(all) = minibatch_total {
            loss = all.loss;
            all.add_to(sums);
        }
        sums.stepped(finite(loss, "the policy loss", self.step)?, trainer.step()?);
        critic.map_or(Ok(()), Critic::step)
    }

    /// Evaluates all terms on the whole minibatch, if a term compares its sequences.
    fn whole(
        &self,
        trainer: &ModelTrainer,
        critic: Option<&Critic>,
        samples: &[UpdateSample<'_>],
        batch: &Minibatch<'_>,
        earlier: &FixedLogprobs,
    ) -> Result<LossTotal> {
        let members = batch.members;
        let (logprobs, entropies) = self.evaluate(trainer, samples, members)?;
        let places = places(samples, members);
        let values = critic.map(|c| {
            let rows: Vec<&Trajectory> = members.iter().map(|&i| &samples[i].rollout.trajectory).collect();
            let masks: Vec<&[bool]> = members.iter().map(|&i| samples[i].mask()).collect();
            c.values(&rows, &masks)
        });
        let values = values.transpose()?.map(|grid| pick(&grid, &places));
        let now = CurrentOutputs { logprobs: pick(&logprobs, &places), entropies: pick(&entropies, &places), values };
        let weights = batch.weights.clone();
        let batch = token_batch(samples, members, weights, &places, &now, earlier, self.correction, batch.seed);
        Ok(LossTotal::separate(self.terms, &batch))
    }

    /// Computes log-probabilities of some samples under a model, by sample.
    fn logprobs_of(
        &self,
        model: &ModelTrainer,
        samples: &[UpdateSample<'_>],
        ids: &[usize],
    ) -> Result<BTreeMap<usize, Vec<f64>>> {
        let (logprobs, _) = self.evaluate(model, samples, ids)?;
        Ok(ids.iter().copied().zip(logprobs).collect())
    }
    /// Computes log-probabilities and entropies, `[member][token]`, without gradients.
    fn evaluate(
        &self,
        model: &ModelTrainer,
        samples: &[UpdateSample<'_>],
        ids: &[usize],
    ) -> Result<(TokenGrid, TokenGrid)> {
        let empty = || -> TokenGrid { ids.iter().map(|&i| vec![0.0; samples[i].tokens().len()]).collect() };
        let (mut logprobs, mut entropies) = (empty(), empty());
        let lengths: Vec<usize> = ids.iter().map(|&i| samples[i].tokens().len()).collect();
        for part in micro_batches(&lengths, self.micro_batch_tokens) {
            let members: Vec<usize> = part.iter().map(|&k| ids[k]).collect();
            let places = places(samples, &members);
            let (tokens, within) = inputs(samples, &members, &places);
            let outputs = model.evaluate(&tokens, &within, self.temperature)?;
            for (n, p) in places.iter().enumerate() {
                logprobs[part[p.sequence]][p.token] = outputs.logprobs[n];
                entropies[part[p.sequence]][p.token] = outputs.entropies[n];
            }
        }
        Ok((logprobs, entropies))
    }
}

/// Cuts a list into `parts` pieces whose lengths differ by at most one, the longer ones first. There are fewer pieces
/// only if there are fewer items, so the learning-rate schedule, which assumes `parts` steps, is completed.
fn shares<T>(items: &[T], parts: usize) -> Vec<&[T]> {
    let (short, longer) = (items.len() / parts, items.len() % parts);
    let mut rest = items;
    let lengths = (0..parts).map(|n| short + usize::from(n < longer)).filter(|length| *length > 0);
    lengths
        .map(|length| {
            let (share, after) = rest.split_at(length);
            rest = after;
            share
        })
        .collect()
}
