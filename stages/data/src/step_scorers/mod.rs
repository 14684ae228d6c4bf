//! Scorers of steps: who labels the turns of an agent, for a process reward model to learn from.

pub mod http;
pub mod process;
pub mod registry;
pub mod scorer;

pub use scorer::{ScoringContext, StepScorer};
