//! Plans the batches of all optimizer steps from the number of pairs and the seed, one epoch at a time.

use super::config::PreferenceConfig;
use trainyard_core::{Chance, Error, Result};

/// Batches of every step within the budget. In memory is the order of one epoch.
pub struct PreferencePlan {
    pairs: u32,
    batch_pairs: usize,
    chance: Chance,
    steps: u64,
    /// Number and order of the epoch in memory.
    current: Option<(u64, Vec<u32>)>,
}

impl PreferencePlan {
    /// Counts the steps within the budget, given the number of pairs.
    pub fn new(config: &PreferenceConfig, pairs: u32) -> Self {
        let chance = Chance::new(config.seed).child("preference", &[]);
        let epochs = config.epochs.unwrap_or(if config.steps.is_none() { 1 } else { u64::MAX });
        let batch_pairs = config.batch_pairs.max(1);
        let by_epochs = epochs.saturating_mul((pairs as usize).div_ceil(batch_pairs) as u64);
        let steps = config.steps.unwrap_or(u64::MAX).min(by_epochs);
        Self { pairs, batch_pairs, chance, steps, current: None }
    }
    /// Returns the number of steps.
    pub fn steps(&self) -> u64 {
        self.steps
    }
    /// Returns the places of the pairs of a step. Errors: bug, beyond the last step.
    pub fn batch(&mut self, step: u64) -> Result<&[u32]> {
        if step >= self.steps {
            return Err(Error::bug(format!("step {step} is beyond the {} planned ones", self.steps)));
        }
        let by_epoch = (self.pairs as usize).div_ceil(self.batch_pairs) as u64;
        let (epoch, number) = (step / by_epoch, (step % by_epoch) as usize);
        let kept = self.current.take().filter(|(kept, _)| *kept == epoch);
        let current = kept.unwrap_or_else(|| (epoch, self.order(epoch)));
        let (_, order) = self.current.insert(current);
        let start = number * self.batch_pairs;
        Ok(&order[start..order.len().min(start.saturating_add(self.batch_pairs))])
    }

    fn order(&self, epoch: u64) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.pairs).collect();
        self.chance.at("epoch", &[epoch]).shuffle(&mut order);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(config: &PreferenceConfig) -> Vec<Vec<u32>> {
        let mut plan = PreferencePlan::new(config, 10);
        let batches = (0..plan.steps()).map(|step| plan.batch(step).unwrap().to_vec()).collect();
        assert!(plan.batch(plan.steps()).is_err());
        batches
    }

    #[test]
    fn every_epoch_has_each_pair_once_in_another_order() {
        let config = PreferenceConfig { batch_pairs: 4, epochs: Some(2), ..PreferenceConfig::default() };
        let made = all(&config);
        assert_eq!(made.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 2, 4, 4, 2]);
        let epoch = |n: usize| made[3 * n..3 * n + 3].concat();
        let sorted = |mut all: Vec<u32>| {
            all.sort_unstable();
            all
        };
        assert!(sorted(epoch(0)) == (0..10).collect::<Vec<_>>() && sorted(epoch(0)) == sorted(epoch(1)));
        assert_ne!(epoch(0), epoch(1));
        assert_eq!(all(&PreferenceConfig { steps: Some(4), epochs: None, ..config.clone() }), made[..4]);
        assert_eq!(all(&PreferenceConfig { epochs: None, ..config.clone() }), made[..3], "one epoch by default");
        let mut order: Vec<usize> = (0..10).collect();
        Chance::new(config.seed).child("preference", &[]).at("epoch", &[1]).shuffle(&mut order);
        assert!(epoch(1).iter().zip(&order).all(|(a, b)| *a as usize == *b));
    }
}
