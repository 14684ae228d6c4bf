//! What a model acts on: tools, sandboxed workers, environments, tool-call formats, verifiers, rewards.
//!
//! An agent's world must be exact and repeatable, so that two runs of one digest see the same tool results: tools run for real,
//! untrusted programs in processes of their own. A turn is text here; tokens are kept by the loop that samples.

pub mod calls;
pub mod conformance;
pub mod environments;
pub mod formats;
#[cfg(test)]
mod listed_tests;
pub mod number;
pub mod parts;
pub mod rewards;
pub mod tools;
pub mod verifiers;

pub use environments::{AgentTurn, Environment, Episode, Observation, Outcome, Step};
pub use formats::ToolFormat;
pub use parts::Parts;
pub use rewards::{GroupView, Reward, Score};
pub use tools::{Ticket, Tool, ToolCall, ToolHost, ToolLimits, ToolResult, ToolSession, ToolSpec};
pub use verifiers::Verifier;
