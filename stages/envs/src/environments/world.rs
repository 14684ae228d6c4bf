//! What an environment keeps of one episode beside the tools of the registry: tools of its own, and a say in what follows a turn.
//!
//! Why so: [`crate::environments::dialogue`] has the rules that are the same everywhere (limits, calls that cannot be read, calls
//! that were lost), so a world is state and nothing else. Tools of one world share that state, and a fork copies it once. A world
//! that judges by its state makes the answer itself: an agent cannot say what it has not done. Refuses: chance but from the seed
//! that it was made with; a copy must go on as the original would.

use crate::tools::{Ticket, ToolCall, ToolResult, ToolSession};
use trainyard_core::Result;
use trainyard_tables::Message;

/// What follows a turn, as a world has it.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The agent's turn again, after the results of its calls and these messages.
    GoOn(Vec<Message>),
    /// The episode is over: with this answer (stop `answer`), or without one (stop `end`).
    End(Option<String>),
}

/// The state of one episode. Dropping it closes it.
pub trait World: Send {
    /// Hands over a call of one of the world's own tools. Arguments that do not fit the tool give a ready ticket with an error that
    /// the agent sees.
    fn submit(&mut self, call: &ToolCall) -> Ticket;
    /// What follows a turn whose calls, of whichever tools, have these results. Not asked when a call was lost.
    fn after_calls(&mut self, _results: &[ToolResult]) -> Reply {
        Reply::GoOn(Vec::new())
    }
    /// What follows a turn without a call, be it empty. None = the text is the answer, as the dialogue reads it.
    fn after_text(&mut self, _text: &str) -> Option<Reply> {
        None
    }
    /// A copy with the state after the last completed call.
    fn fork(&self) -> Result<Box<dyn World>>;
}

/// A world of tools that share nothing: one session each, by the tool's name.
pub struct Sessions(Vec<(String, Box<dyn ToolSession>)>);

impl Sessions {
    pub fn new(sessions: impl IntoIterator<Item = (String, Box<dyn ToolSession>)>) -> Self {
        Self(sessions.into_iter().collect())
    }
}

impl World for Sessions {
    fn submit(&mut self, call: &ToolCall) -> Ticket {
        match self.0.iter_mut().find(|(name, _)| *name == call.name) {
            Some((_, session)) => session.submit(&call.arguments),
            None => Ticket::ready(ToolResult::unknown_tool(&call.name, &[])),
        }
    }
    fn fork(&self) -> Result<Box<dyn World>> {
        let copies =
            self.0.iter().map(|(name, session)| Ok((name.clone(), session.fork()?))).collect::<Result<Vec<_>>>()?;
        Ok(Box::new(Self(copies)))
    }
}
