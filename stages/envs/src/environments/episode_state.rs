//! Defines the state that an environment adds to one episode of a dialogue: custom tools, and control over the
//! continuation after a turn.
//!
//! [`crate::environments::dialogue`] implements the common rules (limits, unreadable calls, lost calls), so
//! implementations only hold state. The tools of one environment share the state, and a fork copies it once. An
//! environment that judges the final state produces the answer itself, so an agent cannot claim a result that it has
//! not reached.

use crate::tools::{PendingToolResult, ToolCall, ToolResult, ToolSession};
use trainyard_core::{Error, Result};
use trainyard_tables::Message;

/// Continuation of an episode after a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum AfterTurn {
    /// The agent's turn again, after the results of its calls and these messages.
    Continue(Vec<Message>),
    /// The end of the episode, with an answer (stop `answer`) or without (stop `end`).
    End(Option<String>),
}

/// Environment-specific state of one episode. Any randomness comes from the seed with which the state was created.
/// Dropping the state closes it.
pub trait EpisodeState: Send {
    /// Submits a call of one of the environment's tools. Arguments that do not fit the tool give a result that is
    /// available immediately, with an error for the agent.
    fn submit(&mut self, call: &ToolCall) -> PendingToolResult;
    /// Submits a turn without calls to a component that replies later. [`EpisodeState::after_text`] is called once the
    /// returned result is available; with `None`, immediately.
    fn submit_text(&mut self, _text: &str) -> Option<PendingToolResult> {
        None
    }
    /// Returns the error that stops the stage, if the environment's code failed. Called once the results of a turn have
    /// arrived.
    fn failure(&mut self) -> Option<Error> {
        None
    }
    /// Returns the continuation after a turn whose calls, of any tools, have these results. Not called when a call was
    /// lost or late.
    fn after_calls(&mut self, _results: &[ToolResult]) -> AfterTurn {
        AfterTurn::Continue(Vec::new())
    }
    /// Returns the continuation after a turn without calls, possibly empty. `None` means that the text is the answer,
    /// as the dialogue reads it.
    fn after_text(&mut self, _text: &str) -> Option<AfterTurn> {
        None
    }
    /// Returns a copy with the state after the last completed call, which continues as the original would.
    fn fork(&self) -> Result<Box<dyn EpisodeState>>;
}

/// The state of environments whose tools are independent: one session per tool name.
pub struct ToolSessions(Vec<(String, Box<dyn ToolSession>)>);

impl ToolSessions {
    /// Creates the state from sessions by tool name.
    pub fn new(sessions: impl IntoIterator<Item = (String, Box<dyn ToolSession>)>) -> Self {
        Self(sessions.into_iter().collect())
    }
}

impl EpisodeState for ToolSessions {
    fn submit(&mut self, call: &ToolCall) -> PendingToolResult {
        match self.0.iter_mut().find(|(name, _)| *name == call.name) {
            Some((_, session)) => session.submit(&call.arguments),
            None => PendingToolResult::ready(ToolResult::unknown_tool(&call.name, &[])),
        }
    }
    fn fork(&self) -> Result<Box<dyn EpisodeState>> {
        let copies =
            self.0.iter().map(|(name, session)| Ok((name.clone(), session.fork()?))).collect::<Result<Vec<_>>>()?;
        Ok(Box::new(Self(copies)))
    }
}
