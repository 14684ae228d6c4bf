//! Replay: learning again from rollouts of earlier steps.

pub mod none;
pub mod self_imitation;

pub use none::None;
pub use self_imitation::SelfImitation;
