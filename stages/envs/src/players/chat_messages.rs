//! Converts the messages of an environment to the form that a chat-completion server receives.

use trainyard_chat::ChatRequestMessage;
use trainyard_tables::Message;

/// Converts a message of the prompt, or one that the environment adds.
pub(super) fn plain(message: &Message) -> ChatRequestMessage {
    match message.role.as_str() {
        "tool" => result(&message.content, None),
        role => ChatRequestMessage::new(role, message.content.clone()),
    }
}

/// Converts a tool's result; `call` is the id of its call. Servers accept a tool message only for a call that they
/// know, so a result without an id becomes a user message, as the templates of many models write it.
pub(super) fn result(text: &str, call: Option<&str>) -> ChatRequestMessage {
    match call {
        Some(id) => ChatRequestMessage { tool_call_id: Some(id.to_string()), ..ChatRequestMessage::new("tool", text) },
        None => ChatRequestMessage::new("user", format!("<tool_response>\n{text}\n</tool_response>")),
    }
}
