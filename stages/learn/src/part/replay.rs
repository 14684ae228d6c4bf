//! Replay of rollouts in later updates.

use super::Part;
use crate::batch::{Batch, Grid, Rollout};
use trainyard_core::Chance;

/// Earlier rollout that enters an update again.
#[derive(Debug, Clone, PartialEq)]
pub struct Replayed {
    /// Rollout as it was offered.
    pub rollout: Rollout,
    /// Advantage per token; 0 where the mask is false.
    pub advantages: Vec<f64>,
    /// Factor of the rollout's aggregation weights.
    pub weight: f64,
}

/// Storage of rollouts of earlier steps for later updates.
pub trait Replay: Part {
    /// Offers the rollouts of a step, before its updates, with the advantages that they will have.
    fn offer(&mut self, batch: &Batch, advantages: &Grid);
    /// Returns rollouts that join the update of this step; called once per step, after `offer`.
    fn draw(&mut self, step: u64, chance: &Chance) -> Vec<Replayed>;
    /// Returns metrics of the last step: (name, value).
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}
