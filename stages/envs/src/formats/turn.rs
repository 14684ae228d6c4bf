//! A turn of the agent as its tool format reads it.

use crate::tools::ToolCall;
use trainyard_tables::Message;

/// One turn of the agent, parsed by its tool format.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentTurn {
    /// The whole turn as sampled, with markup, without the end token.
    pub text: String,
    /// Tool calls in order; an error is what the agent will be told about an unreadable call.
    pub calls: Vec<Result<ToolCall, String>>,
    /// Whether the turn hit a token limit. Set by the sampler.
    pub truncated: bool,
}

impl AgentTurn {
    /// The readable calls as JSON text for [`Message::tool_calls`]; `None` if there are none.
    pub fn calls_json(&self) -> Option<String> {
        let calls: Vec<&ToolCall> = self.calls.iter().flatten().collect();
        if calls.is_empty() { None } else { serde_json::to_string(&calls).ok() }
    }
    /// The assistant message of this turn.
    pub fn message(&self) -> Message {
        Message { tool_calls: self.calls_json(), ..Message::new("assistant", self.text.clone()) }
    }
}
