//! Where a call of a program goes on: after a turn that was sampled, or from a beginning of its own.
//!
//! A program sends back what it was given, parsed and written anew: other spaces in its calls, thoughts left out. So
//! messages are compared by what they mean, and a conversation goes on where all its messages come back in order.

use serde_json::Value;
use trainyard_tables::Message;

/// Whether a conversation of these messages goes on with `asked`: all of them come first there, and more follow.
pub fn continues(known: &[Message], asked: &[Message]) -> bool {
    asked.len() > known.len() && known.iter().zip(asked).all(|(known, asked)| same(known, asked))
}

/// Whether two messages mean the same: words without the white space around them, calls as JSON. Thoughts may be left
/// out when a message is sent back, but not changed.
pub fn same(known: &Message, asked: &Message) -> bool {
    known.role == asked.role
        && known.content.trim() == asked.content.trim()
        && calls(known) == calls(asked)
        && asked.reasoning_content.as_deref().is_none_or(|thought| {
            thought.trim().is_empty()
                || known.reasoning_content.as_deref().is_some_and(|known| known.trim() == thought.trim())
        })
}

fn calls(message: &Message) -> Option<Value> {
    let text = message.tool_calls.as_deref()?;
    // Calls that are no JSON are equal as text.
    Some(serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(content: &str, calls: Option<&str>, thought: Option<&str>) -> Message {
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
        let known = said("So.", Some(call), Some("think"));
        for (asked, expected) in [
            (said("So.", Some(call), Some("think")), true),
            (said(" So.\n", Some(spaced), None), true),
            (said("So.", Some(spaced), Some("  ")), true),
            (said("So.", Some(spaced), Some("other")), false),
            (said("So", Some(call), None), false),
            (said("So.", None, None), false),
            (said("So.", Some("[]"), None), false),
            (said("So.", Some("not json"), None), false),
            (Message { role: "user".into(), ..said("So.", Some(call), None) }, false),
        ] {
            assert_eq!(same(&known, &asked), expected, "{asked:?}");
        }
    }

    #[test]
    fn a_conversation_goes_on_with_more_messages() {
        let [u, a, t] = ["user", "assistant", "tool"].map(|role| Message::new(role, role));
        let known = [u.clone(), a.clone()];
        assert!(continues(&known, &[u.clone(), a.clone(), t.clone()]));
        assert!(!continues(&known, &known), "the same call again is another sample");
        assert!(!continues(&known, &[u.clone(), t.clone(), a.clone()]), "rewritten");
        assert!(!continues(&known, &[t, u.clone(), a.clone(), u]), "begins otherwise");
    }
}
