//! Implements replay, which adds rollouts of earlier steps to an update.

pub mod none;
pub mod self_imitation;
