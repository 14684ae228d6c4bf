//! Contains the environments, which pose problems and respond to an agent's turns. Each must pass
//! [`crate::conformance`].

pub mod answer;
pub mod countdown;
pub mod customer_service;
pub mod dialogue;
pub mod dialogue_environment;
pub mod dialogue_options;
pub mod environment;
pub mod environment_options;
pub mod episode_state;
pub mod function_calling;
pub mod generating_environment;
pub mod generator;
pub mod grid_world;
pub mod http;
pub mod latency;
pub mod math_problems;
pub(crate) mod mistakes;
pub mod multi_hop_questions;
pub(crate) mod names;
pub mod process;
pub mod questions;
pub mod registry;
pub mod setup;
pub mod sql_questions;
pub mod word_problems;

pub use answer::marked_or_last_line;
pub use dialogue_environment::DialogueEnvironment;
pub use dialogue_options::{DialogueOptions, ExtraOptions, WithDialogue};
pub use environment::{
    AgentTurnRequest, CallCounts, Environment, Episode, EpisodeStep, Observation, Outcome, ParsedTurn, TurnTokens,
};
pub use environment_options::EnvironmentOptions;
pub use episode_state::{AfterTurn, EpisodeState};
pub use generating_environment::{GeneratingEnvironment, ProblemWorld};
pub use generator::{Demonstration, ProblemGenerator, ScriptedTurn};
pub use latency::Latency;
pub use questions::{QuestionEnvironment, QuestionOptions};
pub use registry::{EnvironmentSlot, Environments, family, family_with, generating, line, read};
pub use setup::EnvironmentSetup;
