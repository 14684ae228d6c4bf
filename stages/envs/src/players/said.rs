//! Messages of an environment in the form that a chat-completion server receives.

use trainyard_chat::Said;
use trainyard_tables::Message;

/// Converts a message of the prompt, or one that the environment adds.
pub(super) fn plain(message: &Message) -> Said {
    match message.role.as_str() {
        "tool" => result(&message.content, None),
        role => Said::new(role, message.content.clone()),
    }
}

/// Converts a tool's result. Servers accept such a message only for a call that they know; any other result is sent as
/// a user message, as the templates of many models write it.
pub(super) fn result(text: &str, call: Option<&str>) -> Said {
    match call {
        Some(id) => Said { answers: Some(id.to_string()), ..Said::new("tool", text) },
        None => Said::new("user", format!("<tool_response>\n{text}\n</tool_response>")),
    }
}
