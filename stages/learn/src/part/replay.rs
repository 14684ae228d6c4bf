//! Rollouts that enter an update again.

use super::Part;
use crate::batch::{Batch, Grid, Rollout};
use trainyard_core::Chance;

/// An old rollout that enters the update again.
#[derive(Debug, Clone, PartialEq)]
pub struct Replayed {
    /// The rollout as it was offered.
    pub rollout: Rollout,
    /// One per token; 0 where the mask is false.
    pub advantages: Vec<f64>,
    /// Multiplies the rollout's aggregation weights.
    pub weight: f64,
}

/// Keeps rollouts of earlier steps and returns them to later updates.
pub trait Replay: Part {
    /// Shows the rollouts of a step, before its updates, with the advantages that they will have.
    fn offer(&mut self, batch: &Batch, advantages: &Grid);
    /// Rollouts that join the update of this step; called once per step, after `offer`.
    fn draw(&mut self, step: u64, chance: &Chance) -> Vec<Replayed>;
    /// Metrics of the last step: (name, value).
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}
