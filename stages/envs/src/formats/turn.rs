//! Defines a turn of the agent, as a tool-call format parses it.

use crate::tools::ToolCall;
use trainyard_tables::Message;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentTurn {
    /// Text of the turn as sampled, with markup, without the end token.
    pub text: String,
    /// Tool calls in order; an error is the message that the agent receives about an unreadable call.
    pub calls: Vec<Result<ToolCall, String>>,
    /// Whether the turn hit a token limit. The sampler sets this field.
    pub truncated: bool,
}

impl AgentTurn {
    /// Returns the readable calls as JSON text for [`Message::tool_calls`]; `None` if there is no readable call.
    pub fn calls_json(&self) -> Option<String> {
        let calls: Vec<&ToolCall> = self.calls.iter().flatten().collect();
        if calls.is_empty() { None } else { serde_json::to_string(&calls).ok() }
    }
    /// Returns the assistant message of this turn.
    pub fn message(&self) -> Message {
        Message { tool_calls: self.calls_json(), ..Message::new("assistant", self.text.clone()) }
    }
}
