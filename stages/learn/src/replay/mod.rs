//! Replay: learning again from rollouts of earlier steps.

pub mod none;
pub mod self_imitation;
