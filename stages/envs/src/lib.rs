//! What a model acts on: tools, sandboxed workers, environments, tool-call formats, verifiers, rewards.
//!
//! Why so: an agent's world must be exact and repeatable, so that two runs of one digest see the same tool results. Tools run
//! for real, never pasted from an answer; untrusted programs run in processes of their own. Every part is one file and one line
//! in its room's `registry.rs`. Refuses: tensors, tokens (a turn is text here), wall-clock times in results (a time limit ends
//! an episode as an infrastructure failure), and ambient chance.

pub mod calls;
pub mod conformance;
pub mod environments;
pub mod formats;
#[cfg(test)]
mod listed_tests;
pub mod number;
pub mod rewards;
pub mod tools;
pub mod verifiers;

pub use environments::{AgentTurn, Environment, Episode, Observation, Outcome, Step};
pub use formats::ToolFormat;
pub use rewards::{GroupView, Reward, Score};
pub use tools::{Ticket, Tool, ToolCall, ToolHost, ToolLimits, ToolResult, ToolSession, ToolSpec};
pub use verifiers::Verifier;
