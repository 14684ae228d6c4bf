//! Matches a program's request with a sampled turn, or with the beginning of a new segment.
//!
//! A program sends messages back parsed and rewritten: other spaces in its calls, thoughts left out. Messages are
//! therefore compared by meaning, and a request continues a conversation if it repeats all messages of the conversation
//! in order.

use serde_json::Value;
use trainyard_tables::Message;

/// Returns whether `request` continues a conversation of the messages `known`: it begins with all of them and has more.
pub fn continues(known: &[Message], request: &[Message]) -> bool {
    request.len() > known.len() && known.iter().zip(request).all(|(known, message)| same(known, message))
}

/// Returns whether two messages mean the same: text without surrounding white space, calls as JSON. Thoughts may be
/// left out when a message is sent back, but not changed.
pub fn same(known: &Message, message: &Message) -> bool {
    known.role == message.role
        && known.content.trim() == message.content.trim()
        && calls(known) == calls(message)
        && message.reasoning_content.as_deref().is_none_or(|thought| {
            thought.trim().is_empty()
                || known.reasoning_content.as_deref().is_some_and(|known| known.trim() == thought.trim())
        })
}

fn calls(message: &Message) -> Option<Value> {
    let text = message.tool_calls.as_deref()?;
    // Calls that are not JSON are compared as text.
    Some(serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_message(content: &str, calls: Option<&str>, thought: Option<&str>) -> Message {
        Message {
            tool_calls: calls.map(str::to_string),
            reasoning_content: thought.map(str::to_string),
            ..Message::new("assistant", content)
        }
    }

    #[test]
    fn messages_are_the_same_by_what_they_mean() {
        let call = r#"[{"name": "f", "arguments": {"a": 1, "b": [2]}}]"#;
        let spaced = r#"[ {"arguments":{"b":[2],"a":1},"name":"f"} ]"#;
        let known = test_message("So.", Some(call), Some("think"));
        for (message, expected) in [
            (test_message("So.", Some(call), Some("think")), true),
            (test_message(" So.\n", Some(spaced), None), true),
            (test_message("So.", Some(spaced), Some("  ")), true),
            (test_message("So.", Some(spaced), Some("other")), false),
            (test_message("So", Some(call), None), false),
            (test_message("So.", None, None), false),
            (test_message("So.", Some("[]"), None), false),
            (test_message("So.", Some("not json"), None), false),
            (Message { role: "user".into(), ..test_message("So.", Some(call), None) }, false),
        ] {
            assert_eq!(same(&known, &message), expected, "{message:?}");
        }
    }

    #[test]
    fn conversation_continues_with_more_messages() {
        let [u, a, t] = ["user", "assistant", "tool"].map(|role| Message::new(role, role));
        let known = [u.clone(), a.clone()];
        assert!(continues(&known, &[u.clone(), a.clone(), t.clone()]));
        assert!(!continues(&known, &known), "the same call again is another sample");
        assert!(!continues(&known, &[u.clone(), t.clone(), a.clone()]), "rewritten");
        assert!(!continues(&known, &[t, u.clone(), a.clone(), u]), "begins otherwise");
    }
}
