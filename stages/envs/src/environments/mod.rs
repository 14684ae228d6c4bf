//! Worlds that pose problems and answer an agent's turns.
//!
//! An environment is a file (or folder) here and a line in [`registry`], and passes [`crate::conformance`].

pub(crate) mod dialogue;
pub mod environment;
pub mod math_problems;
pub mod registry;
pub mod word_problems;

pub use dialogue::DialogueOptions;
pub use environment::{AgentTurn, Environment, Episode, Observation, Outcome, Step};
pub use registry::{build, check, complete};
