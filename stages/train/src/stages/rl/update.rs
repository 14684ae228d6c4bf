//! The policy update: minibatches of rollouts, loss terms on plain numbers, gradients through the trainer.
//!
//! Why so: aggregation weights are computed once per minibatch, so micro-batches only bound memory. A term whose scope is the whole
//! minibatch gets all logprobs first; others are evaluated micro-batch by micro-batch, without a second forward. Refuses: losses
//! that are not finite, with the step.

use super::critic::{self, Critic};
use crate::curves::finite;
use crate::optimize::{Place, Trainer, micro_batches};
use std::collections::BTreeMap;
use trainyard_core::{Chance, Result};
use trainyard_learn::corrections::Correction;
use trainyard_learn::losses::divergence;
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
    pub correct: bool,
    /// Share of verified answers in its group.
    pub pass_rate: f64,
    /// First and end token of every agent turn.
    pub turns: Vec<(usize, usize)>,
    /// Value predictions when it was sampled, and their targets, where there is a critic.
    pub values: Option<Vec<f64>>,
    pub returns: Option<Vec<f64>>,
}

/// How to update.
pub struct Update<'a> {
    pub terms: &'a [Box<dyn LossTerm>],
    /// What stands before the metrics of each term.
    pub prefixes: &'a [String],
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
    pub metrics: BTreeMap<String, f64>,
    pub optimizer_steps: u64,
}

/// Sums while an update runs.
#[derive(Default)]
struct Sums {
    /// By the place of the term and the name of its metric.
    terms: BTreeMap<(usize, &'static str), f64>,
    /// Of the k3 estimates of all tokens.
    divergence: f64,
    tokens: f64,
    entropy: f64,
    loss: f64,
    norm: f64,
    largest_norm: f64,
    /// Largest over smallest token weight, summed over minibatches.
    weight_spread: f64,
    /// Tokens in the loss whose logprob no term wants to change.
    silent: f64,
    steps: u64,
}

/// One minibatch: who is in it, and the weight of every token.
struct Minibatch<'a> {
    members: &'a [usize],
    weights: Grid,
    seed: u64,
}

/// What the models say of some samples at the places of their masks, in one order.
struct Heard {
    logprobs: Vec<f64>,
    entropies: Vec<f64>,
    values: Option<Vec<f64>>,
}

impl Update<'_> {
    /// Runs all epochs and minibatches. Samples without a token in the loss are left out.
    pub fn run(
        &self,
        trainer: &mut Trainer,
        mut critic: Option<&mut Critic>,
        samples: &[Sample],
    ) -> Result<UpdateReport> {
        let used: Vec<usize> = (0..samples.len()).filter(|&i| samples[i].mask.iter().skip(1).any(|m| *m)).collect();
        if used.is_empty() {
            return Ok(UpdateReport::default());
        }
        let proximal =
            if self.correction.recomputes() { Some(self.logprobs_of(trainer, samples, &used)?) } else { None };
        let reference = self.reference.map(|r| self.logprobs_of(r, samples, &used)).transpose()?;
        let old = Old { proximal, reference };
        let mut sums = Sums::default();
        for epoch in 0..self.epochs {
            let order = self.order(samples, &used, epoch);
            for (n, members) in order.iter().enumerate() {
                let masks: Vec<Vec<bool>> = members.iter().map(|&i| samples[i].mask.clone()).collect();
                let mut weights = self.aggregate.weights(&masks, self.horizon);
                for (row, &i) in weights.iter_mut().zip(members) {
                    row.iter_mut().for_each(|w| *w *= samples[i].weight);
                }
                let seed = self.chance.at("loss terms", &[self.step, epoch, n as u64]).next_u64();
                let minibatch = Minibatch { members, weights, seed };
                self.minibatch(trainer, critic.as_deref_mut(), samples, &minibatch, &old, &mut sums)?;
            }
        }
        Ok(sums.report(self.prefixes))
    }

    /// Members of every minibatch of an epoch. A term that compares within groups gets whole groups.
    fn order(&self, samples: &[Sample], used: &[usize], epoch: u64) -> Vec<Vec<usize>> {
        let mut draws = self.chance.at("minibatches", &[self.step, epoch]);
        let whole_groups = self.terms.iter().any(|t| t.scope() == Scope::Minibatch && t.needs().groups);
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
        trainer: &mut Trainer,
        mut critic: Option<&mut Critic>,
        samples: &[Sample],
        batch: &Minibatch<'_>,
        old: &Old,
        sums: &mut Sums,
    ) -> Result<()> {
        let members = batch.members;
        let lengths: Vec<usize> = members.iter().map(|&i| samples[i].tokens.len()).collect();
        let micro = micro_batches(&lengths, self.micro_batch_tokens);
        let whole = if self.terms.iter().any(|t| t.scope() == Scope::Minibatch) {
            Some(self.whole(trainer, critic.as_deref(), samples, batch, old)?)
        } else {
            None
        };
        sums.weight_spread += spread_of(&batch.weights);
        let mut loss = 0.0;
        for part in &micro {
            let ids: Vec<usize> = part.iter().map(|&k| members[k]).collect();
            let places = places(samples, &ids);
            let tokens = || ids.iter().map(|&i| samples[i].tokens.clone()).collect::<Vec<_>>();
            let forward = trainer.forward(tokens(), &places, self.temperature)?;
            let judged = critic.as_deref().map(|c| c.forward(tokens(), &places)).transpose()?;
            let (logprobs, entropies) = forward.values()?;
            sums.tokens += places.len() as f64;
            sums.entropy += entropies.iter().sum::<f64>();
            let total = match &whole {
                Some(all) => all.rows(part),
                None => {
                    let weights: Grid = part.iter().map(|&k| batch.weights[k].clone()).collect();
                    let heard =
                        Heard { logprobs, entropies, values: judged.as_ref().map(critic::numbers).transpose()? };
                    Total::of(self.terms, &self.batch(samples, &ids, weights, old, &places, &heard, batch.seed), sums)
                }
            };
            loss += total.loss;
            finite(total.loss, "the policy loss", self.step)?;
            let pick = |grid: &Grid| -> Vec<f64> { places.iter().map(|p| grid[p.sequence][p.token]).collect() };
            let entropy_slopes = total.entropies.as_ref().map(pick).unwrap_or_default();
            let slopes = pick(&total.logprobs);
            sums.silent += slopes.iter().filter(|s| **s == 0.0).count() as f64;
            trainer.backward(&forward, &slopes, &entropy_slopes)?;
            if let (Some(critic), Some(values), Some(slopes)) = (critic.as_deref_mut(), &judged, &total.values) {
                critic.backward(values, &pick(slopes))?;
            }
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
        critic.map_or(Ok(()), Critic::step)
    }

    /// All terms on the whole minibatch, for terms that compare its sequences.
    fn whole(
        &self,
        trainer: &Trainer,
        critic: Option<&Critic>,
        samples: &[Sample],
        batch: &Minibatch<'_>,
        old: &Old,
    ) -> Result<Total> {
        let members = batch.members;
        let (logprobs, entropies) = self.evaluate(trainer, samples, members)?;
        let places = places(samples, members);
        let values = critic.map(|c| {
            let tokens: Vec<&[u32]> = members.iter().map(|&i| samples[i].tokens.as_slice()).collect();
            let masks: Vec<&[bool]> = members.iter().map(|&i| samples[i].mask.as_slice()).collect();
            c.values(&tokens, &masks)
        });
        let values = values.transpose()?.map(|grid| pick(&grid, &places));
        let heard = Heard { logprobs: pick(&logprobs, &places), entropies: pick(&entropies, &places), values };
        let mut sums = Sums::default();
        let token_batch = self.batch(samples, members, batch.weights.clone(), old, &places, &heard, batch.seed);
        let mut total = Total::of(self.terms, &token_batch, &mut sums);
        total.sums = sums.terms;
        total.divergence = sums.divergence;
        Ok(total)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "these are the columns of the batch; a struct would only rename them"
    )]
    fn batch(
        &self,
        samples: &[Sample],
        ids: &[usize],
        weights: Grid,
        old: &Old,
        places: &[Place],
        heard: &Heard,
        seed: u64,
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
        let given = |list: fn(&Sample) -> Option<&Vec<f64>>| {
            ids.iter().map(|&i| list(&samples[i]).cloned()).collect::<Option<Grid>>()
        };
        TokenBatch {
            logprobs: spread(&heard.logprobs),
            old_logprobs: proximal.unwrap_or(behavior),
            advantages: ids.iter().map(|&i| samples[i].advantages.clone()).collect(),
            weights,
            correction,
            reference: old.reference.as_ref().map(rows),
            entropies: Some(spread(&heard.entropies)),
            values: heard.values.as_deref().map(spread),
            old_values: given(|s| s.values.as_ref()),
            returns: given(|s| s.returns.as_ref()),
            groups: ids.iter().map(|&i| samples[i].group).collect(),
            rewards: ids.iter().map(|&i| samples[i].reward).collect(),
            correct: ids.iter().map(|&i| samples[i].correct).collect(),
            pass_rates: ids.iter().map(|&i| samples[i].pass_rate).collect(),
            turns: ids.iter().map(|&i| samples[i].turns.clone()).collect(),
            seed,
            mask,
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
            let (l, e) = model.evaluate(
                part_ids.iter().map(|&i| samples[i].tokens.clone()).collect(),
                &places,
                self.temperature,
            )?;
            for (n, p) in places.iter().enumerate() {
                logprobs[part[p.sequence]][p.token] = l[n];
                entropies[part[p.sequence]][p.token] = e[n];
            }
        }
        Ok((logprobs, entropies))
    }
}

/// Cuts a list into `parts` pieces whose lengths differ by one at most, the longer ones first; fewer only where there are fewer items,
/// so that the learning-rate schedule, which counts on `parts` steps, comes to its end.
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
    values: Option<Grid>,
    sums: BTreeMap<(usize, &'static str), f64>,
    divergence: f64,
}

impl Total {
    fn of(terms: &[Box<dyn LossTerm>], batch: &TokenBatch, sums: &mut Sums) -> Self {
        let mut total = Self {
            loss: 0.0,
            logprobs: batch.zeros(),
            entropies: None,
            values: None,
            sums: BTreeMap::new(),
            divergence: 0.0,
        };
        sums.divergence += divergence(batch);
        for (place, term) in terms.iter().enumerate() {
            let Term { loss, d_logprobs, d_entropies, d_values, sums: term_sums } = term.value(batch);
            total.loss += loss;
            add(&mut total.logprobs, &d_logprobs);
            if let Some(slopes) = d_entropies {
                add(total.entropies.get_or_insert_with(|| batch.zeros()), &slopes);
            }
            if let Some(slopes) = d_values {
                add(total.values.get_or_insert_with(|| batch.zeros()), &slopes);
            }
            for (name, value) in term_sums {
                *sums.terms.entry((place, name)).or_default() += value;
            }
        }
        total
    }
    /// The rows of some members; their loss is counted with the whole.
    fn rows(&self, members: &[usize]) -> Self {
        let rows = |grid: &Grid| -> Grid { members.iter().map(|&k| grid[k].clone()).collect() };
        Self {
            loss: 0.0,
            logprobs: rows(&self.logprobs),
            entropies: self.entropies.as_ref().map(rows),
            values: self.values.as_ref().map(rows),
            sums: BTreeMap::new(),
            divergence: 0.0,
        }
    }
    fn add_to(&self, sums: &mut Sums) {
        sums.divergence += self.divergence;
        for (name, value) in &self.sums {
            *sums.terms.entry(*name).or_default() += value;
        }
    }
}

impl Sums {
    fn report(self, prefixes: &[String]) -> UpdateReport {
        let steps = self.steps.max(1) as f64;
        let tokens = self.tokens.max(1.0);
        let named = |place: usize, name: &str| format!("{}.{name}", prefixes[place]);
        let mut metrics: BTreeMap<String, f64> =
            self.terms.iter().map(|((place, name), sum)| (named(*place, name), sum / tokens)).collect();
        metrics.insert("loss".into(), self.loss / steps);
        metrics.insert("grad_norm".into(), self.norm / steps);
        metrics.insert("grad_norm_max".into(), self.largest_norm);
        metrics.insert("policy_entropy".into(), self.entropy / tokens);
        metrics.insert("silent_tokens".into(), self.silent / tokens);
        metrics.insert("token_weight_spread".into(), self.weight_spread / steps);
        metrics.insert("kl".into(), self.divergence / tokens);
        metrics.insert("optimizer_steps".into(), self.steps as f64);
        UpdateReport { metrics, optimizer_steps: self.steps }
    }
}

/// Largest over smallest weight of a token in the loss.
fn spread_of(weights: &Grid) -> f64 {
    let (low, high) = weights
        .iter()
        .flatten()
        .filter(|w| **w > 0.0)
        .fold((f64::MAX, 0.0), |(l, h): (f64, f64), w| (l.min(*w), h.max(*w)));
    if high > 0.0 { high / low } else { 1.0 }
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
