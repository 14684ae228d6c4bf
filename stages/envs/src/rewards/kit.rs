//! Builds episodes for reward tests, with messages as environments write them.

use crate::formats::{CLOSE, OPEN};
use crate::tools::ToolCall;
use serde_json::json;
use trainyard_tables::{Message, StopReason, Trajectory};

/// Returns one turn that calls each of these tools without arguments, and the results.
pub(crate) fn called(tools: &[&str]) -> Vec<Message> {
    let calls: Vec<ToolCall> =
        tools.iter().map(|name| ToolCall { name: (*name).to_string(), arguments: json!({}) }).collect();
    let results = tools.iter().map(|_| Message::new("tool", "done"));
    std::iter::once(calling(&calls)).chain(results).collect()
}

/// Returns a turn with these calls, without results.
pub(crate) fn calling(calls: &[ToolCall]) -> Message {
    let bodies: Vec<String> = calls.iter().map(|call| format!("{OPEN}{}{CLOSE}", json!(call))).collect();
    Message { tool_calls: Some(json!(calls).to_string()), ..Message::new("assistant", bodies.concat()) }
}

/// Returns a final turn with an answer.
pub(crate) fn answer(text: &str) -> Vec<Message> {
    vec![Message::new("assistant", text)]
}

/// Returns an episode of these turns; its last message is the answer.
pub(crate) fn episode(turns: &[Vec<Message>]) -> Trajectory {
    let messages = turns.concat();
    let answer = messages.last().map(|m| m.content.clone());
    Trajectory { messages, answer, stop_reason: StopReason::Answer, ..Trajectory::default() }
}
