//! Converts tool calls of imported conversations to text. Other formats store calls as structures separate from the
//! text. Our record contains them both in the assistant's text, as a model samples them (Hermes form, as in Qwen's
//! templates), and parsed.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use std::fmt::Write as _;
use trainyard_core::{Error, Result};
use trainyard_tables::Message;

/// A call in a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RawToolCall {
    /// Id, to which the result refers.
    pub id: Option<String>,
    pub name: String,
    /// JSON text of the arguments, in the order of the file where that was text.
    pub arguments: String,
}

impl RawToolCall {
    /// Returns `{"name": …, "arguments": …}`, with the name first as in Qwen's templates.
    pub fn json(&self) -> String {
        format!("{{\"name\": {}, \"arguments\": {}}}", Value::from(self.name.as_str()), self.arguments)
    }
    /// Returns [`Self::json`] with the id, if present, before the name.
    fn json_with_id(&self) -> String {
        let json = self.json();
        match &self.id {
            Some(id) => format!("{{\"id\": {}, {}", Value::from(id.as_str()), &json[1..]),
            None => json,
        }
    }
}

/// Returns an assistant message with its calls, both in its text (Hermes form: JSON between `<tool_call>` and
/// `</tool_call>`) and parsed.
pub fn assistant(text: &str, calls: &[RawToolCall]) -> Message {
    if calls.is_empty() {
        return Message::new("assistant", text);
    }
    let mut content = text.to_string();
    for call in calls {
        let before = if content.is_empty() { "" } else { "\n" };
        let _ = write!(content, "{before}<tool_call>\n{}\n</tool_call>", call.json());
    }
    let parsed: Vec<String> = calls.iter().map(RawToolCall::json_with_id).collect();
    Message { tool_calls: Some(format!("[{}]", parsed.join(", "))), ..Message::new("assistant", content) }
}

/// Reads a call of an OpenAI message (`{"id", "function": {"name", "arguments"}}`, arguments as text or object) or of
/// ours (`{"name", "arguments"}`).
pub fn read_call(call: &Value) -> Result<RawToolCall> {
    let function = call.get("function").unwrap_or(call);
    let name = function.get("name").and_then(Value::as_str).ok_or_else(|| Error::data("a tool call has no `name`"))?;
    let arguments = match function.get("arguments") {
        None | Some(Value::Null) => "{}".to_string(),
        Some(Value::String(text)) if text.trim().is_empty() => "{}".to_string(),
        Some(Value::String(text)) => {
            serde_json::from_str::<Value>(text)
                .map_err(|e| Error::data(format!("arguments of the call of `{name}` are not JSON: {e}")))?;
            text.trim().to_string()
        }
        Some(value) => value.to_string(),
    };
    let id = call.get("id").and_then(Value::as_str).filter(|id| !id.is_empty()).map(str::to_string);
    Ok(RawToolCall { id, name: name.to_string(), arguments })
}

/// A call in one of the forms of `tool_calls`, whose arguments keep their order.
#[derive(Deserialize)]
struct StoredToolCall<'t> {
    id: Option<String>,
    #[serde(borrow)]
    function: Option<FunctionCall<'t>>,
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'t RawValue>,
}

/// Reads the column `tool_calls` of a message. Returns its calls, and whether they are in OpenAI's form, which a
/// template is to write separately from the content. Errors: data, if the text is not a JSON list of calls.
pub fn parsed_calls(text: &str) -> Result<(Vec<RawToolCall>, bool)> {
    let wrong = |e: serde_json::Error| Error::data(format!("`tool_calls` is not a JSON list of calls: {e}"));
    let stored: Vec<StoredToolCall<'_>> = serde_json::from_str(text).map_err(wrong)?;
    let separate = stored.iter().any(|call| call.function.is_some());
    let call = |StoredToolCall { id, function, name, arguments }: StoredToolCall<'_>| -> Result<RawToolCall> {
        let (name, arguments) = match function {
            Some(function) => (Some(function.name), function.arguments),
            None => (name, arguments),
        };
        let name = name.ok_or_else(|| Error::data("a tool call has no `name`"))?;
        Ok(RawToolCall { id: id.filter(|id| !id.is_empty()), ..written_call(FunctionCall { name, arguments })? })
    };
    Ok((stored.into_iter().map(call).collect::<Result<_>>()?, separate))
}

/// A call in a separate text, whose arguments keep their order.
#[derive(Deserialize)]
struct FunctionCall<'t> {
    name: String,
    #[serde(borrow)]
    arguments: Option<&'t RawValue>,
}

/// Reads JSON text of a call (`{"name", "arguments"}`) or of a list of calls. Errors: data, if the text is neither.
pub fn read_call_texts(text: &str) -> Result<Vec<RawToolCall>> {
    let wrong = |e: serde_json::Error| Error::data(format!("a tool call is not JSON with a `name`: {e}"));
    let calls: Vec<FunctionCall<'_>> = match text.trim_start().starts_with('[') {
        true => serde_json::from_str(text).map_err(wrong)?,
        false => vec![serde_json::from_str(text).map_err(wrong)?],
    };
    calls.into_iter().map(written_call).collect()
}

fn written_call(FunctionCall { name, arguments }: FunctionCall<'_>) -> Result<RawToolCall> {
    match arguments.map(RawValue::get) {
        None | Some("null") => Ok(RawToolCall { name, arguments: "{}".into(), id: None }),
        Some(quoted) if quoted.starts_with('"') => read_call(&json!({"name": name, "arguments": unquoted(quoted)?})),
        Some(plain) => Ok(RawToolCall { name, arguments: plain.to_string(), id: None }),
    }
}

fn unquoted(json: &str) -> Result<String> {
    serde_json::from_str(json).map_err(|e| Error::data(format!("a tool call's arguments are not text: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: Option<&str>, arguments: &str) -> RawToolCall {
        RawToolCall { id: id.map(str::to_string), name: "add".into(), arguments: arguments.into() }
    }

    #[test]
    fn both_shapes_of_a_call_are_read() {
        let openai =
            json!({"id": "1", "type": "function", "function": {"name": "add", "arguments": "{\"b\": 1, \"a\": 2}"}});
        assert_eq!(read_call(&openai).unwrap(), call(Some("1"), r#"{"b": 1, "a": 2}"#));
        assert_eq!(read_call(&json!({"name": "add"})).unwrap(), call(None, "{}"));
        assert_eq!(read_call(&json!({"name": "add", "arguments": {"a": 1}})).unwrap(), call(None, r#"{"a":1}"#));
        assert!(read_call(&json!({"arguments": {}})).unwrap_err().message.contains("no `name`"));
        assert!(read_call(&json!({"name": "f", "arguments": "{"})).is_err());
        let written = r#"[{"arguments": {"b": 1, "a": 2}, "name": "add"}, {"name": "add", "arguments": "{\"a\": 1}"}]"#;
        assert_eq!(read_call_texts(written).unwrap(), [call(None, r#"{"b": 1, "a": 2}"#), call(None, r#"{"a": 1}"#)]);
        assert!(read_call_texts("{\"name\": ").is_err() && read_call_texts("{}").is_err());
    }

    #[test]
    fn message_text_contains_the_call() {
        let message = assistant("Let me see.", &[call(Some("c1"), r#"{"a": 1}"#)]);
        let body = r#"{"name": "add", "arguments": {"a": 1}}"#;
        assert_eq!(message.content, format!("Let me see.\n<tool_call>\n{body}\n</tool_call>"));
        assert_eq!(message.tool_calls.as_deref(), Some(r#"[{"id": "c1", "name": "add", "arguments": {"a": 1}}]"#));
        assert_eq!(assistant("Hi.", &[]).tool_calls, None);
    }
}
