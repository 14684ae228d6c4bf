//! SPEAR's self-imitation: own rollouts that did better than expected are learned from again, as long as they still would.
//!
//! Why so: with sparse rewards a good episode is too rare to be seen once; but an old one is only worth imitating while the policy is not
//! better anyway, so its advantage is taken anew against the median of recent rewards, and old ones go. The weight grows over the run,
//! first explore, then trust (2509.22601). Refuses: rollouts of the present step, which are in the update already.

use crate::batch::{Batch, Grid, Group, Rollout};
use crate::part::{Part, Replay, Replayed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::{BTreeSet, VecDeque};
use trainyard_api::PartOptions;
use trainyard_core::{Chance, Error, Metric, OptionProblem, Reduce, Result};

/// What the median is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Baseline {
    /// The mean reward of every group.
    #[default]
    Groups,
    /// The reward of every rollout.
    Rollouts,
}

/// Options of `self_imitation`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SelfImitation {
    /// Kept are rollouts whose advantage, averaged over their tokens in the loss, is above this.
    pub threshold: f64,
    /// Rollouts kept at most; the oldest leave first.
    #[schemars(range(min = 1))]
    pub capacity: usize,
    /// Steps after which a rollout leaves.
    pub max_age: u64,
    /// The baseline is the median of mean group rewards, or of the rewards of all rollouts.
    pub baseline: Baseline,
    /// Rewards that the median is taken over; the newest.
    #[schemars(range(min = 1))]
    pub baseline_capacity: usize,
    /// Weight of replayed rollouts once the ramp is over.
    #[schemars(range(min = 0))]
    pub coefficient: f64,
    /// Steps of the ramp from 0 to the coefficient; 0 = none.
    pub warmup: u64,
    /// Rollouts replayed at most in one step.
    #[schemars(range(min = 1))]
    pub per_step: usize,
    #[serde(skip)]
    state: State,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
struct State {
    /// Oldest first.
    kept: VecDeque<Kept>,
    /// Oldest first.
    rewards: VecDeque<f64>,
    /// Of the last draw.
    replayed: usize,
    weight: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Kept {
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
            state: State::default(),
        }
    }
}

impl PartOptions for SelfImitation {
    const KIND: &'static str = "self_imitation";
    const SUMMARY: &'static str = "own good rollouts again, rechecked against the median of recent rewards (SPEAR)";
    const DOC: &'static str = "Keeps, first in first out, rollouts whose mean advantage was above `threshold`, for `max_age` steps. At a draw A~ = R −\n\
        median(recent rewards), the same for every token in the loss; only rollouts of earlier steps with A~ > 0 are replayed, at most\n\
        `per_step`, by chance without replacement, and a replayed one leaves the buffer. Weight = coefficient·(1 − cos(π·min(step,\n\
        warmup)/warmup))/2; at weight 0 nothing is replayed.\n\n\
        As in the released code: group means as baseline, no division by a deviation, each rollout replayed once, capacity 2048,\n\
        baseline_capacity 10240. Its scripts set warmup 100, 200 or 300 and max_age 5 (its documentation 10, as here). They name a\n\
        threshold of 1, but its buffer takes every advantage above 0, and unscaled advantages of a 0/1 reward never exceed 1: hence 0\n\
        here. It replays the whole buffer whenever that is one and a half times full; `per_step` spreads this over the steps. State:\n\
        both buffers, whole rollouts included. Source: 2509.22601.";
    fn metrics() -> Vec<Metric> {
        vec![
            Metric::new("replayed", "rollouts", "Earlier rollouts that enter the update again.")
                .over(Reduce::LastTenth)
                .formerly("replayed"),
            Metric::new("weight", "factor", "Weight of replayed rollouts in the loss.")
                .over(Reduce::LastTenth)
                .formerly("replay_weight"),
            Metric::new("buffer", "rollouts", "Rollouts that are kept for replay, after the draw.")
                .over(Reduce::LastTenth)
                .formerly("replay_buffer"),
        ]
    }
    fn check(&self) -> Vec<OptionProblem> {
        [
            OptionProblem::not_finite("/threshold", self.threshold),
            OptionProblem::outside("/capacity", self.capacity, 1..),
            OptionProblem::outside("/baseline_capacity", self.baseline_capacity, 1..),
            OptionProblem::outside("/coefficient", self.coefficient, 0.0..),
            OptionProblem::outside("/per_step", self.per_step, 1..),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

impl Part for SelfImitation {
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
    fn offer(&mut self, batch: &Batch, advantages: &Grid) {
        for group in &batch.groups {
            for reward in self.baselines(group) {
                push(&mut self.state.rewards, reward, self.baseline_capacity);
            }
        }
        for (rollout, row) in batch.rollouts().zip(advantages) {
            if advantage(rollout, row).is_some_and(|a| a > self.threshold) {
                push(&mut self.state.kept, Kept { step: batch.step, rollout: rollout.clone() }, self.capacity);
            }
        }
    }
    fn draw(&mut self, step: u64, chance: &Chance) -> Vec<Replayed> {
        self.state.kept.retain(|k| step.saturating_sub(k.step) <= self.max_age);
        let weight = self.weight(step);
        let baseline = median(&self.state.rewards).unwrap_or(f64::INFINITY);
        let chosen = if weight > 0.0 { self.choose(step, baseline, chance) } else { BTreeSet::new() };
        let mut again = Vec::with_capacity(chosen.len());
        let mut rest = VecDeque::with_capacity(self.state.kept.len());
        for (place, kept) in std::mem::take(&mut self.state.kept).into_iter().enumerate() {
            if chosen.contains(&place) {
                again.push(replayed(kept.rollout, baseline, weight));
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
    /// What one group adds to the rewards that the median is taken over.
    fn baselines(&self, group: &Group) -> Vec<f64> {
        let rewards: Vec<f64> = group.rollouts.iter().map(|r| r.reward).collect();
        match self.baseline {
            Baseline::Rollouts => rewards,
            Baseline::Groups if rewards.is_empty() => Vec::new(),
            Baseline::Groups => vec![rewards.iter().sum::<f64>() / rewards.len() as f64],
        }
    }
    /// Places in the buffer of what is replayed.
    fn choose(&self, step: u64, baseline: f64, chance: &Chance) -> BTreeSet<usize> {
        let good = |k: &Kept| k.step < step && k.rollout.reward > baseline;
        let mut places: Vec<usize> =
            self.state.kept.iter().enumerate().filter(|(_, k)| good(k)).map(|(place, _)| place).collect();
        if places.len() > self.per_step {
            chance.at("self_imitation", &[step]).shuffle(&mut places);
            places.truncate(self.per_step);
        }
        places.into_iter().collect()
    }
    /// Half a cosine from 0 at the first step to the coefficient.
    fn weight(&self, step: u64) -> f64 {
        if step >= self.warmup {
            return self.coefficient;
        }
        self.coefficient * (1.0 - (std::f64::consts::PI * step as f64 / self.warmup as f64).cos()) / 2.0
    }
}

fn replayed(rollout: Rollout, baseline: f64, weight: f64) -> Replayed {
    let a = rollout.reward - baseline;
    let advantages = rollout.mask.iter().map(|m| if *m { a } else { 0.0 }).collect();
    Replayed { rollout, advantages, weight }
}

/// Mean over the tokens in the loss; none without any.
fn advantage(rollout: &Rollout, row: &[f64]) -> Option<f64> {
    let tokens = rollout.loss_tokens();
    let sum: f64 = rollout.mask.iter().zip(row).filter(|(m, _)| **m).map(|(_, a)| *a).sum();
    if tokens > 0 { Some(sum / tokens as f64) } else { None }
}

/// Adds the newest; the oldest make room.
fn push<T>(queue: &mut VecDeque<T>, item: T, capacity: usize) {
    while queue.len() >= capacity.max(1) {
        queue.pop_front();
    }
    queue.push_back(item);
}

/// Between the two in the middle if there is no one; none of nothing.
fn median(values: &VecDeque<f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().collect();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    if n == 0 { None } else { Some(f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2])) }
}

#[cfg(test)]
#[path = "self_imitation_tests.rs"]
mod tests;
