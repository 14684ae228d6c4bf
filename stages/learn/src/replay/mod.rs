//! Keeping rollouts of earlier steps. One file per form; the list is in [`crate::registry`].

pub mod none;

pub use none::None;
