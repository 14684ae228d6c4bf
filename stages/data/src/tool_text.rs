//! The text form of tool calls in imported conversations. Other formats keep calls as structures beside the text; our
//! record has them both in the assistant's text, as a model samples them (Hermes form, as in Qwen's templates), and
//! parsed.

use serde_json::{Value, json};
use trainyard_core::{Error, Result};
use trainyard_tables::Message;

/// A call in Hermes form: JSON between `<tool_call>` and `</tool_call>`.
pub fn hermes(name: &str, arguments: &Value) -> String {
    format!("<tool_call>\n{}\n</tool_call>", json!({"name": name, "arguments": arguments}))
}

/// An assistant message with its calls, given as (name, arguments), both in its text and parsed.
pub fn assistant(text: &str, calls: &[(String, Value)]) -> Message {
    if calls.is_empty() {
        return Message::new("assistant", text);
    }
    let mut content = text.to_string();
    for (name, arguments) in calls {
        if !content.is_empty() {
            content.push('\n');
        }
        content.push_str(&hermes(name, arguments));
    }
    let parsed: Vec<Value> =
        calls.iter().map(|(name, arguments)| json!({"name": name, "arguments": arguments})).collect();
    Message { tool_calls: Some(Value::Array(parsed).to_string()), ..Message::new("assistant", content) }
}

/// Reads a call of an OpenAI message (`{"function": {"name", "arguments"}}`, arguments as text or object) or of ours
/// (`{"name", "arguments"}`).
pub fn read_call(call: &Value) -> Result<(String, Value)> {
    let function = call.get("function").unwrap_or(call);
    let name = function.get("name").and_then(Value::as_str).ok_or_else(|| Error::data("a tool call has no `name`"))?;
    let arguments = match function.get("arguments") {
        None | Some(Value::Null) => json!({}),
        Some(Value::String(text)) => serde_json::from_str(text)
            .map_err(|e| Error::data(format!("arguments of the call of `{name}` are not JSON: {e}")))?,
        Some(value) => value.clone(),
    };
    Ok((name.to_string(), arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_shapes_of_a_call_are_read() {
        let openai = json!({"id": "1", "type": "function", "function": {"name": "add", "arguments": "{\"a\": 1}"}});
        assert_eq!(read_call(&openai).unwrap(), ("add".into(), json!({"a": 1})));
        assert_eq!(read_call(&json!({"name": "now"})).unwrap(), ("now".into(), json!({})));
        assert!(read_call(&json!({"arguments": {}})).unwrap_err().message.contains("no `name`"));
        assert!(read_call(&json!({"name": "f", "arguments": "{"})).is_err());
    }

    #[test]
    fn the_text_holds_the_call() {
        let message = assistant("Let me see.", &[("add".into(), json!({"a": 1}))]);
        assert!(message.content.starts_with("Let me see.\n<tool_call>\n{"));
        assert_eq!(message.tool_calls.as_deref(), Some(r#"[{"arguments":{"a":1},"name":"add"}]"#));
        assert_eq!(assistant("Hi.", &[]).tool_calls, None);
    }
}
