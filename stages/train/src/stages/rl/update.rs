//! The policy update: minibatches of rollouts, loss terms on plain numbers, gradients through the trainer.
//!
//! Why so: aggregation weights are computed once per minibatch, so micro-batches only bound memory. A term whose scope is the whole
//! minibatch gets all logprobs first; others are evaluated micro-batch by micro-batch, without a second forward. Refuses: losses
//! that are not finite, with the step.

use crate::curves::finite;
use crate::optimize::{Place, Trainer, micro_batches};
use std::collections::BTreeMap;
use trainyard_core::{Chance, Result};
use trainyard_learn::correction::Correction;
use trainyard_learn::{Aggregate, Grid, LossTerm, Scope, Term, TokenBatch};

/// One rollout as the update sees it. Per-token lists have the length of `tokens`.
#[derive(Debug, Clone, Default)]
pub struct Sample {
    pub tokens: Vec<u32>,
    pub mask: Vec<bool>,
    /// Under the sampling policy.
    pub behavior: Vec<f64>,
    pub advantages: Vec<f64>,
    /// Multiplies its aggregation weights (replay).
    pub weight: f64,
    pub group: usize,
    pub reward: f64,
}

/// How to update.
pub struct Update<'a> {
    pub terms: &'a [Box<dyn LossTerm>],
    pub correction: &'a dyn Correction,
    pub aggregate: Aggregate,
    pub horizon: Option<usize>,
    pub epochs: u64,
    pub minibatches: usize,
    pub micro_batch_tokens: usize,
    pub temperature: f64,
    /// The policy that `kl` measures the distance from, where a term needs it.
    pub reference: Option<&'a Trainer>,
    pub chance: Chance,
    pub step: u64,
}

/// Means over the tokens (or optimizer steps) of an update.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UpdateReport {
    pub metrics: BTreeMap<&'static str, f64>,
    pub optimizer_steps: u64,
}

/// Sums while an update runs.
#[derive(Default)]
struct Sums {
    terms: BTreeMap<&'static str, f64>,
    tokens: f64,
    entropy: f64,
    loss: f64,
    norm: f64,
    largest_norm: f64,
    steps: u64,
}

impl Update<'_> {
    /// Runs all epochs and minibatches. Samples without a token in the loss are left out.
    pub fn run(&self, trainer: &mut Trainer, samples: &[Sample]) -> Result<UpdateReport> {
        let used: Vec<usize> = (0..samples.len()).filter(|&i| samples[i].mask.iter().skip(1).any(|m| *m)).collect();
        if used.is_empty() {
            return Ok(UpdateReport::default());
        }
        let proximal = if self.correction.recomputes() { Some(self.logprobs_of(trainer, samples, &used)?) } else { None };
        let reference = self.reference.map(|r| self.logprobs_of(r, samples, &used)).transpose()?;
        let old = Old { proximal, reference };
        let mut sums = Sums::default();
        for epoch in 0..self.epochs {
            let mut order = used.clone();
            self.chance.at("minibatches", &[self.step, epoch]).shuffle(&mut order);
            let share = order.len().div_ceil(self.minibatches);
            for minibatch in order.chunks(share) {
                self.minibatch(trainer, samples, minibatch, &old, &mut sums)?;
            }
        }
        Ok(sums.report())
    }

    fn minibatch(&self, trainer: &mut Trainer, samples: &[Sample], members: &[usize], old: &Old, sums: &mut Sums) -> Result<()> {
        let masks: Vec<Vec<bool>> = members.iter().map(|&i| samples[i].mask.clone()).collect();
        let mut weights = self.aggregate.weights(&masks, self.horizon);
        for (row, &i) in weights.iter_mut().zip(members) {
            row.iter_mut().for_each(|w| *w *= samples[i].weight);
        }
        let lengths: Vec<usize> = members.iter().map(|&i| samples[i].tokens.len()).collect();
        let micro = micro_batches(&lengths, self.micro_batch_tokens);
        let whole = if self.terms.iter().any(|t| t.scope() == Scope::Minibatch) {
            Some(self.whole(trainer, samples, members, &weights, old)?)
        } else {
            None
        };
        let mut loss = 0.0;
        for part in &micro {
            let ids: Vec<usize> = part.iter().map(|&k| members[k]).collect();
            let places = places(samples, &ids);
            let forward = trainer.forward(ids.iter().map(|&i| samples[i].tokens.clone()).collect(), &places, self.temperature)?;
            let (logprobs, entropies) = forward.values()?;
            sums.tokens += places.len() as f64;
            sums.entropy += entropies.iter().sum::<f64>();
            let total = match &whole {
                Some(all) => all.rows(part),
                None => {
                    let part_weights: Grid = part.iter().map(|&k| weights[k].clone()).collect();
                    let batch = self.batch(samples, &ids, part_weights, old, &places, &logprobs, &entropies);
                    Total::of(self.terms, &batch, sums)
                }
            };
            loss += total.loss;
            finite(total.loss, "the policy loss", self.step)?;
            let pick = |grid: &Grid| -> Vec<f64> { places.iter().map(|p| grid[p.sequence][p.token]).collect() };
            let entropy_slopes = total.entropies.as_ref().map(pick).unwrap_or_default();
            trainer.backward(&forward, &pick(&total.logprobs), &entropy_slopes)?;
        }
        if let Some(all) = whole {
            loss = all.loss;
            all.add_to(sums);
        }
        sums.loss += finite(loss, "the policy loss", self.step)?;
        if let Some(report) = trainer.step()? {
            sums.norm += report.gradient_norm;
            sums.largest_norm = sums.largest_norm.max(report.gradient_norm);
            sums.steps += 1;
        }
        Ok(())
    }

    /// All terms on the whole minibatch, for terms that compare its sequences.
    fn whole(&self, trainer: &Trainer, samples: &[Sample], members: &[usize], weights: &Grid, old: &Old) -> Result<Total> {
        let (logprobs, entropies) = self.evaluate(trainer, samples, members)?;
        let places = places(samples, members);
        let batch = self.batch(samples, members, weights.clone(), old, &places, &pick(&logprobs, &places), &pick(&entropies, &places));
        let mut sums = Sums::default();
        let mut total = Total::of(self.terms, &batch, &mut sums);
        total.sums = sums.terms;
        Ok(total)
    }

    #[expect(clippy::too_many_arguments, reason = "these are the columns of the batch; a struct would only rename them")]
    fn batch(
        &self,
        samples: &[Sample],
        ids: &[usize],
        weights: Grid,
        old: &Old,
        places: &[Place],
        logprobs: &[f64],
        entropies: &[f64],
    ) -> TokenBatch {
        let spread = |values: &[f64]| -> Grid {
            let mut grid: Grid = ids.iter().map(|&i| vec![0.0; samples[i].tokens.len()]).collect();
            for (p, v) in places.iter().zip(values) {
                grid[p.sequence][p.token] = *v;
            }
            grid
        };
        let behavior: Grid = ids.iter().map(|&i| samples[i].behavior.clone()).collect();
        let rows = |grid: &BTreeMap<usize, Vec<f64>>| -> Grid { ids.iter().map(|i| grid[i].clone()).collect() };
        let mask: Vec<Vec<bool>> = ids.iter().map(|&i| samples[i].mask.clone()).collect();
        let proximal = old.proximal.as_ref().map(rows);
        let correction = proximal.as_ref().map(|p| self.correction.weights(p, &behavior, &mask));
        TokenBatch {
            logprobs: spread(logprobs),
            old_logprobs: proximal.unwrap_or(behavior),
            advantages: ids.iter().map(|&i| samples[i].advantages.clone()).collect(),
            weights,
            correction,
            reference: old.reference.as_ref().map(rows),
            entropies: Some(spread(entropies)),
            groups: ids.iter().map(|&i| samples[i].group).collect(),
            rewards: ids.iter().map(|&i| samples[i].reward).collect(),
            mask,
            ..TokenBatch::default()
        }
    }

    /// Logprobs of some samples under a model, by sample.
    fn logprobs_of(&self, model: &Trainer, samples: &[Sample], ids: &[usize]) -> Result<BTreeMap<usize, Vec<f64>>> {
        let (logprobs, _) = self.evaluate(model, samples, ids)?;
        Ok(ids.iter().copied().zip(logprobs).collect())
    }
    /// Logprobs and entropies, `[member][token]`, without gradients.
    fn evaluate(&self, model: &Trainer, samples: &[Sample], ids: &[usize]) -> Result<(Grid, Grid)> {
        let empty = || -> Grid { ids.iter().map(|&i| vec![0.0; samples[i].tokens.len()]).collect() };
        let (mut logprobs, mut entropies) = (empty(), empty());
        let lengths: Vec<usize> = ids.iter().map(|&i| samples[i].tokens.len()).collect();
        for part in micro_batches(&lengths, self.micro_batch_tokens) {
            let part_ids: Vec<usize> = part.iter().map(|&k| ids[k]).collect();
            let places = places(samples, &part_ids);
            let (l, e) = model.evaluate(part_ids.iter().map(|&i| samples[i].tokens.clone()).collect(), &places, self.temperature)?;
            for (n, p) in places.iter().enumerate() {
                logprobs[part[p.sequence]][p.token] = l[n];
                entropies[part[p.sequence]][p.token] = e[n];
            }
        }
        Ok((logprobs, entropies))
    }
}

/// Logprobs that do not change during the update, by sample.
struct Old {
    proximal: Option<BTreeMap<usize, Vec<f64>>>,
    reference: Option<BTreeMap<usize, Vec<f64>>>,
}

/// The sum of all terms.
struct Total {
    loss: f64,
    logprobs: Grid,
    entropies: Option<Grid>,
    sums: BTreeMap<&'static str, f64>,
}

impl Total {
    fn of(terms: &[Box<dyn LossTerm>], batch: &TokenBatch, sums: &mut Sums) -> Self {
        let mut total = Self { loss: 0.0, logprobs: batch.zeros(), entropies: None, sums: BTreeMap::new() };
        for Term { loss, d_logprobs, d_entropies, sums: term_sums, .. } in terms.iter().map(|t| t.value(batch)) {
            total.loss += loss;
            add(&mut total.logprobs, &d_logprobs);
            if let Some(slopes) = d_entropies {
                add(total.entropies.get_or_insert_with(|| batch.zeros()), &slopes);
            }
            for (name, value) in term_sums {
                *sums.terms.entry(name).or_default() += value;
            }
        }
        total
    }
    /// The rows of some members; their loss is counted with the whole.
    fn rows(&self, members: &[usize]) -> Self {
        let rows = |grid: &Grid| -> Grid { members.iter().map(|&k| grid[k].clone()).collect() };
        Self { loss: 0.0, logprobs: rows(&self.logprobs), entropies: self.entropies.as_ref().map(rows), sums: BTreeMap::new() }
    }
    fn add_to(&self, sums: &mut Sums) {
        for (name, value) in &self.sums {
            *sums.terms.entry(name).or_default() += value;
        }
    }
}

impl Sums {
    fn report(self) -> UpdateReport {
        let steps = self.steps.max(1) as f64;
        let mut metrics: BTreeMap<&'static str, f64> = self.terms.iter().map(|(name, sum)| (*name, sum / self.tokens.max(1.0))).collect();
        metrics.insert("loss", self.loss / steps);
        metrics.insert("grad_norm", self.norm / steps);
        metrics.insert("grad_norm_max", self.largest_norm);
        metrics.insert("policy_entropy", self.entropy / self.tokens.max(1.0));
        UpdateReport { metrics, optimizer_steps: self.steps }
    }
}

fn add(sum: &mut Grid, term: &Grid) {
    for (s, t) in sum.iter_mut().flatten().zip(term.iter().flatten()) {
        *s += t;
    }
}

fn places(samples: &[Sample], ids: &[usize]) -> Vec<Place> {
    Place::of_mask(&ids.iter().map(|&i| samples[i].mask.as_slice()).collect::<Vec<_>>())
}

fn pick(grid: &Grid, places: &[Place]) -> Vec<f64> {
    places.iter().map(|p| grid[p.sequence][p.token]).collect()
}

#[cfg(test)]
#[path = "update_tests.rs"]
mod tests;
