//! Defines step scorers, which label the turns of an agent for the training of a process reward model.

pub mod http;
pub mod process;
pub mod registry;
pub mod scorer;

pub use scorer::{ScoringContext, StepScorer};
