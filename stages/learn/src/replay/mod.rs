//! Keeping rollouts of earlier steps. One file per form; the list is in [`crate::registry`].

pub mod none;
pub mod self_imitation;

pub use none::None;
pub use self_imitation::SelfImitation;
