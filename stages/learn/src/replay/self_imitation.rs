//! Implements `self_imitation` (SPEAR), which replays the policy's rollouts that did better than expected.
//!
//! With sparse rewards a good episode is rare and worth more than one update, but an old episode is worth imitating
//! only while it is better than recent ones. Its advantage is therefore recomputed against the median of recent
//! rewards, and old rollouts are removed. The weight grows over the run, so that exploration comes first (2509.22601).

use crate::batch::{Batch, Group, Rollout, TokenGrid};
use crate::part::{Replay, ReplayedRollout, RlPart};
use crate::statistics::mean;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeSet, VecDeque};
use trainyard_api::PartOptions;
use trainyard_core::{Chance, Error, MetricInfo, OptionProblem, Reduce, Result};

/// Rewards over which the median is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Baseline {
    /// Mean rewards of groups.
    #[default]
    Groups,
    /// Rewards of rollouts.
    Rollouts,
}

/// Options of `self_imitation`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SelfImitation {
    /// Lower bound (exclusive) of the advantage of kept rollouts, averaged over their tokens in the loss.
    pub threshold: f64,
    /// Largest number of rollouts kept; the oldest leave first.
    #[schemars(range(min = 1))]
    pub capacity: usize,
    /// Steps after which a rollout is removed.
    pub max_age: u64,
    /// The baseline is the median of groups' mean rewards, or of the rewards of all rollouts.
    pub baseline: Baseline,
    /// Number of newest rewards over which the median is taken.
    #[schemars(range(min = 1))]
    pub baseline_capacity: usize,
    /// Weight of replayed rollouts after the ramp.
    #[schemars(range(min = 0))]
    pub coefficient: f64,
    /// Steps over which the weight rises from 0 to the coefficient; 0 = no ramp.
    pub warmup: u64,
    /// Largest number of rollouts replayed in one step.
    #[schemars(range(min = 1))]
    pub per_step: usize,
    #[serde(skip)]
    state: ReplayState,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct ReplayState {
    /// Kept rollouts, oldest first.
    kept: VecDeque<BufferedRollout>,
    /// Recent rewards, oldest first.
    rewards: VecDeque<f64>,
    /// Number of rollouts and their weight in the last draw, reported as metrics.
    replayed: usize,
    weight: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct BufferedRollout {
    step: u64,
    rollout: Rollout,
}

impl Default for SelfImitation {
    fn default() -> Self {
        Self {
            threshold: 0.0,
            capacity: 2048,
            max_age: 10,
            baseline: Baseline::Groups,
            baseline_capacity: 10_240,
            coefficient: 1.0,
            warmup: 200,
            per_step: 64,
            state: ReplayState::default(),
        }
    }
}

impl PartOptions for SelfImitation {
    const KIND: &'static str = "self_imitation";
    const SUMMARY: &'static str =
        "replays earlier good rollouts, compared again with the median of recent rewards (SPEAR)";
    const DOC: &'static str = "Keeps rollouts whose mean advantage was above `threshold` for `max_age` steps, first\n\
        in first out. At a draw, A~ = R − median(recent rewards) for every token in the loss. Only rollouts of\n\
        earlier steps with A~ > 0 are replayed, at most `per_step`, drawn without replacement; a replayed rollout\n\
        leaves the buffer. Weight = coefficient·(1 − cos(π·min(step, warmup)/warmup))/2; at weight 0 nothing is\n\
        replayed.\n\n\
        As in the released code, the baseline uses group means, advantages are not divided by a deviation, each\n\
        rollout is replayed once, capacity is 2048 and baseline_capacity 10240. Its scripts set warmup 100, 200 or\n\
        300 and max_age 5 (its documentation 10, as here). They name a threshold of 1, but its buffer takes every\n\
        advantage above 0, and unscaled advantages of a 0/1 reward never exceed 1: hence 0 here. It replays the whole\n\
        buffer whenever that is one and a half times full; `per_step` spreads this over the steps.\n\n\
        State: both buffers, including whole rollouts. Source: 2509.22601.";
    fn metrics() -> Vec<MetricInfo> {
        vec![
            MetricInfo::new("replayed", "rollouts", "Earlier rollouts that are replayed in the update.")
                .reduced_by(Reduce::LastTenth)
                .former_name("replayed"),
            MetricInfo::new("weight", "factor", "Weight of replayed rollouts in the loss.")
                .reduced_by(Reduce::LastTenth)
                .former_name("replay_weight"),
            MetricInfo::new("buffer", "rollouts", "Rollouts that are kept for replay, after the draw.")
                .reduced_by(Reduce::LastTenth)
                .former_name("replay_buffer"),
        ]
    }
    fn check(&self) -> Vec<OptionProblem> {
        [
            OptionProblem::not_finite("/threshold", self.threshold),
            OptionProblem::out_of_range("/capacity", self.capacity, 1..),
            OptionProblem::out_of_range("/baseline_capacity", self.baseline_capacity, 1..),
            OptionProblem::out_of_range("/coefficient", self.coefficient, 0.0..),
            OptionProblem::out_of_range("/per_step", self.per_step, 1..),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

impl RlPart for SelfImitation {
    fn save(&self) -> Value {
        json!(self.state)
    }
    fn load(&mut self, state: Value) -> Result<()> {
        self.state =
            serde_json::from_value(state).map_err(|e| Error::data(format!("state of replay `self_imitation`: {e}")))?;
        Ok(())
    }
}

impl Replay for SelfImitation {
    fn offer(&mut self, batch: &Batch, advantages: &TokenGrid) {
        for group in &batch.groups {
            for reward in self.baselines(group) {
                push(&mut self.state.rewards, reward, self.baseline_capacity);
            }
        }
        for (rollout, row) in batch.rollouts().zip(advantages) {
            if advantage(rollout, row).is_some_and(|a| a > self.threshold) {
                let mut rollout = rollout.clone();
                // No formula reads the text, and it would be in every checkpoint.
                rollout.trajectory.messages.clear();
                push(&mut self.state.kept, BufferedRollout { step: batch.step, rollout }, self.capacity);
            }
        }
    }
    fn draw(&mut self, step: u64, chance: &Chance) -> Vec<ReplayedRollout> {
        self.state.kept.retain(|k| step.saturating_sub(k.step) <= self.max_age);
        let weight = self.weight(step);
        let baseline = median(&self.state.rewards).unwrap_or(f64::INFINITY);
        let chosen = if weight > 0.0 { self.choose(step, baseline, chance) } else { BTreeSet::new() };
        let mut again = Vec::with_capacity(chosen.len());
        let mut rest = VecDeque::with_capacity(self.state.kept.len());
        for (place, kept) in std::mem::take(&mut self.state.kept).into_iter().enumerate() {
            if chosen.contains(&place) {
                again.push(replay_rollout(kept.rollout, baseline, weight));
            } else {
                rest.push_back(kept);
            }
        }
        self.state.kept = rest;
        self.state.replayed = again.len();
        self.state.weight = weight;
        again
    }
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        vec![
            ("replayed", self.state.replayed as f64),
            ("weight", self.state.weight),
            ("buffer", self.state.kept.len() as f64),
        ]
    }
}

impl SelfImitation {
    /// Returns the values of a group that enter the median: its rewards or their mean, depending on the options.
    fn baselines(&self, group: &Group) -> Vec<f64> {
        let rewards: Vec<f64> = group.rollouts.iter().map(|r| r.trajectory.reward).collect();
        match self.baseline {
            Baseline::Rollouts => rewards,
            Baseline::Groups => mean(&rewards).into_iter().collect(),
        }
    }
    /// Returns the positions in the buffer of the rollouts to replay.
    fn choose(&self, step: u64, baseline: f64, chance: &Chance) -> BTreeSet<usize> {
        let good = |k: &BufferedRollout| k.step < step && k.rollout.trajectory.reward > baseline;
        let mut indexes: Vec<usize> =
            self.state.kept.iter().enumerate().filter(|(_, k)| good(k)).map(|(place, _)| place).collect();
        if indexes.len() > self.per_step {
            chance.at("self_imitation", &[step]).shuffle(&mut indexes);
            indexes.truncate(self.per_step);
        }
        indexes.into_iter().collect()
    }
    /// Returns the weight along half a cosine, from 0 at the first step to the coefficient.
    fn weight(&self, step: u64) -> f64 {
        if step >= self.warmup {
            return self.coefficient;
        }
        self.coefficient * (1.0 - (std::f64::consts::PI * step as f64 / self.warmup as f64).cos()) / 2.0
    }
}

fn replay_rollout(rollout: Rollout, baseline: f64, weight: f64) -> ReplayedRollout {
    let a = rollout.trajectory.reward - baseline;
    let advantages = rollout.mask.iter().map(|m| if *m { a } else { 0.0 }).collect();
    ReplayedRollout { rollout, advantages, weight }
}

/// Returns the mean advantage over the tokens in the loss, or `None` without such tokens.
fn advantage(rollout: &Rollout, row: &[f64]) -> Option<f64> {
    let tokens = rollout.loss_tokens();
    let sum: f64 = rollout.mask.iter().zip(row).filter(|(m, _)| **m).map(|(_, a)| *a).sum();
    if tokens > 0 { Some(sum / tokens as f64) } else { None }
}

/// Appends an item and drops the oldest beyond the capacity.
fn push<T>(queue: &mut VecDeque<T>, item: T, capacity: usize) {
    while queue.len() >= capacity.max(1) {
        queue.pop_front();
    }
    queue.push_back(item);
}

/// Returns the median, with the mean of the middle two for an even count, or `None` for an empty list.
fn median(values: &VecDeque<f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().collect();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    if n == 0 { None } else { Some(f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2])) }
}

#[cfg(test)]
#[path = "self_imitation_tests.rs"]
mod tests;
