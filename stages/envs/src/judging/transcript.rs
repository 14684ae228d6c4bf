//! Writes a conversation as text.

use trainyard_tables::Message;

/// Returns all messages with their roles, in order. Tool calls that the text of a message does not contain follow the
/// text as JSON.
pub fn transcript(messages: &[Message]) -> String {
    let mut text = String::new();
    for message in messages {
        let name = message.name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
        text.push_str(&format!("[{}{name}]\n{}\n", message.role, message.content.trim_end()));
        if let Some(calls) = message.tool_calls.as_deref().filter(|_| !message.content.contains("<tool_call>")) {
            text.push_str(&format!("calls: {calls}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_shown_once() {
        let calls = Some("[{\"name\":\"f\",\"arguments\":{}}]".to_string());
        let bare = Message { tool_calls: calls.clone(), ..Message::new("assistant", "") };
        let written = Message { tool_calls: calls, ..Message::new("assistant", "<tool_call>f</tool_call>") };
        let result = Message { name: Some("f".into()), ..Message::new("tool", "4\n") };
        assert_eq!(
            transcript(&[Message::new("user", "2+2?"), bare, result, written]),
            "[user]\n2+2?\n[assistant]\n\ncalls: [{\"name\":\"f\",\"arguments\":{}}]\n[tool f]\n4\n\
             [assistant]\n<tool_call>f</tool_call>\n"
        );
    }
}
