//! Defines the trait of replay parts, which reuse rollouts in later updates.

use super::RlPart;
use crate::batch::{Batch, Rollout, TokenGrid};
use trainyard_core::Chance;

/// Earlier rollout that enters an update again.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayedRollout {
    /// Rollout as it was offered.
    pub rollout: Rollout,
    /// Advantage per token; 0 where the mask is false.
    pub advantages: Vec<f64>,
    /// Factor of the rollout's aggregation weights.
    pub weight: f64,
}

/// Storage of rollouts of earlier steps for later updates.
pub trait Replay: RlPart {
    /// Offers the rollouts of a step, before its updates, with the advantages that they will have.
    fn offer(&mut self, batch: &Batch, advantages: &TokenGrid);
    /// Returns rollouts that join the update of this step; called once per step, after `offer`.
    fn draw(&mut self, step: u64, chance: &Chance) -> Vec<ReplayedRollout>;
    /// Returns metrics of the last step: (name, value).
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}
