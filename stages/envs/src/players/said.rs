//! Messages of an environment as a server of chat completions is told them.

use trainyard_chat::Said;
use trainyard_tables::Message;

/// A message of the prompt, or one that the environment adds.
pub(super) fn plain(message: &Message) -> Said {
    match message.role.as_str() {
        "tool" => result(&message.content, None),
        role => Said::new(role, message.content.clone()),
    }
}

/// A tool's result. Servers take such a message only for a call that they know; any other is told by the user, as the
/// templates of many models write it.
pub(super) fn result(text: &str, call: Option<&str>) -> Said {
    match call {
        Some(id) => Said { answers: Some(id.to_string()), ..Said::new("tool", text) },
        None => Said::new("user", format!("<tool_response>\n{text}\n</tool_response>")),
    }
}
