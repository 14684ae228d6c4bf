//! Provides environments of language-model agents: tools, tool-call formats, verifiers and rewards.
//!
//! The built-in parts are deterministic: the same episode gets the same tool results in every run. User programs,
//! services and models at endpoints may differ between runs; sessions that must be rebuilt compare the repeated results
//! and fail if they changed. Tools really run, and untrusted programs run in separate processes. A turn is text, never
//! tokens. Results contain no wall-clock times; an episode that hits a time limit is an infrastructure failure.

pub mod calls;
pub mod conformance;
pub mod environments;
pub mod formats;
pub mod judging;
#[cfg(test)]
mod listed_tests;
pub mod number;
pub mod parts;
pub mod players;
pub mod programs;
pub mod rewards;
pub mod toolbox;
pub mod tools;
pub mod verifiers;

pub use environments::{
    AgentTurnRequest, CallCounts, Environment, Episode, EpisodeStep, Observation, Outcome, ParsedTurn, TurnTokens,
};
pub use formats::{AgentTurn, ToolFormat};
pub use parts::EnvironmentParts;
pub use rewards::{GroupView, Reward, Score, ScoringGroup};
pub use toolbox::Toolbox;
pub use tools::{
    AgentTool, PendingToolResult, ToolCall, ToolConfig, ToolHost, ToolLimits, ToolResult, ToolSession, ToolSpec,
};
pub use verifiers::Verifier;
