//! Plans the batches of all optimizer steps from lengths, budget and seed, one epoch at a time.

use super::config::SftConfig;
use crate::optimize::{Batches, epoch_batches};
use trainyard_core::{Chance, Error, Result};

/// Epochs of a training without a budget.
const EPOCHS: u64 = 3;

/// Batches of every step within the budget. In memory is one epoch, which is computed again when a step needs another.
pub struct SftPlan<'a> {
    lengths: &'a [u32],
    batch_tokens: usize,
    chance: Chance,
    /// Number of steps up to the end of each epoch.
    ends: Vec<u64>,
    /// Number and batches of the epoch in memory.
    current: Option<(usize, Batches)>,
}

impl<'a> SftPlan<'a> {
    /// Counts the steps within the budget, given the lengths of the examples. Errors: data, without an example.
    pub fn new(config: &SftConfig, lengths: &'a [u32]) -> Result<Self> {
        if lengths.is_empty() {
            return Err(Error::data("no trajectories to train on")
                .help("check `max_tokens`, and that the trajectories have assistant messages"));
        }
        let unlimited = config.steps.is_none() && config.tokens.is_none();
        let epochs = config.epochs.unwrap_or(if unlimited { EPOCHS } else { u64::MAX });
        let chance = Chance::new(config.seed).child("sft", &[]);
        let mut plan = Self { lengths, batch_tokens: config.batch_tokens, chance, ends: Vec::new(), current: None };
        let (mut steps, mut tokens) = (0, 0);
        for epoch in 0..epochs {
            let batches = plan.epoch(epoch);
            let before = steps;
            for batch in batches.iter() {
                if steps >= config.steps.unwrap_or(u64::MAX) || tokens >= config.tokens.unwrap_or(u64::MAX) {
                    break;
                }
                tokens += batch.iter().map(|&i| u64::from(lengths[i as usize])).sum::<u64>();
                steps += 1;
            }
            plan.ends.push(steps);
            if steps - before < batches.len() as u64 {
                break;
            }
        }
        Ok(plan)
    }
    /// Returns the number of steps.
    pub fn steps(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }
    /// Returns the indexes of the examples of a step. Errors: bug, beyond the last step.
    pub fn batch(&mut self, step: u64) -> Result<&[u32]> {
        let epoch = self.ends.partition_point(|end| *end <= step);
        if epoch >= self.ends.len() {
            return Err(Error::bug(format!("step {step} is beyond the {} planned ones", self.steps())));
        }
        let first = epoch.checked_sub(1).map_or(0, |before| self.ends[before]);
        // The epoch before is freed first.
        let kept = self.current.take().filter(|(number, _)| *number == epoch);
        let current = kept.unwrap_or_else(|| (epoch, self.epoch(epoch as u64)));
        let (_, batches) = self.current.insert(current);
        Ok(batches.batch((step - first) as usize))
    }

    fn epoch(&self, epoch: u64) -> Batches {
        epoch_batches(self.lengths, self.batch_tokens, &self.chance, epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all batches of a plan, by a plain reference implementation that holds all of them.
    fn reference(config: &SftConfig, lengths: &[u32]) -> Vec<Vec<u32>> {
        let chance = Chance::new(config.seed).child("sft", &[]);
        let mut plan: Vec<Vec<u32>> = Vec::new();
        let mut tokens = 0;
        for epoch in 0..config.epochs.unwrap_or(if config.steps.or(config.tokens).is_none() { 3 } else { u64::MAX }) {
            for batch in epoch_batches(lengths, config.batch_tokens, &chance, epoch).iter() {
                if config.steps.is_some_and(|steps| plan.len() as u64 >= steps)
                    || config.tokens.is_some_and(|budget| tokens >= budget)
                {
                    return plan;
                }
                tokens += batch.iter().map(|&i| u64::from(lengths[i as usize])).sum::<u64>();
                plan.push(batch.to_vec());
            }
        }
        plan
    }

    #[test]
    fn batches_are_those_of_a_plan_in_memory_in_any_order_of_steps() {
        let chance = Chance::new(5);
        for case in 0..40 {
            let mut draws = chance.at("case", &[case]);
            let lengths: Vec<u32> = (0..1 + draws.below(120)).map(|_| 1 + draws.below(40) as u32).collect();
            let mut limit = |most: u64| (draws.below(2) == 0).then(|| 1 + draws.below(most));
            let (epochs, steps, tokens) = (limit(5), limit(90), limit(9000));
            let config = SftConfig { epochs, steps, tokens, batch_tokens: 100, seed: case, ..SftConfig::default() };
            let expected = reference(&config, &lengths);
            let mut plan = SftPlan::new(&config, &lengths).unwrap();
            assert_eq!(plan.steps(), expected.len() as u64, "{config:?}");
            for step in (0..expected.len()).chain((0..expected.len()).rev().step_by(3)) {
                assert_eq!(plan.batch(step as u64).unwrap(), expected[step], "step {step} of {config:?}");
            }
            assert!(plan.batch(expected.len() as u64).is_err());
        }
        assert!(SftPlan::new(&SftConfig::default(), &[]).is_err());
    }
}
