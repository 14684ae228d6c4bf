//! A message as templates see it.

use minijinja::Value;
use minijinja::value::Serde;
use serde::Serialize;
use trainyard_core::{Error, Result};
use trainyard_tables::Message;

/// The fields of a message in the order in which `transformers` users write them.
#[derive(Serialize)]
pub struct Shown<'m> {
    role: &'m str,
    content: &'m str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<Vec<Value>>,
}

impl<'m> Shown<'m> {
    /// The message as a value. Errors: calls that are no JSON list.
    pub fn value(message: &'m Message) -> Result<Value> {
        let calls = message.tool_calls.as_deref().filter(|_| message.content.is_empty());
        let shown =
            Self { role: &message.role, content: &message.content, tool_calls: calls.map(read_calls).transpose()? };
        Ok(Value::from(Serde(shown)))
    }
}

/// A call as OpenAI's interface wraps it.
#[derive(Serialize)]
struct Wrapped {
    r#type: &'static str,
    function: Value,
}

fn read_calls(json: &str) -> Result<Vec<Value>> {
    let calls: Vec<Value> = serde_json::from_str(json)
        .map_err(|e| Error::data(format!("tool calls of a message are no JSON list: {e}")))?;
    let wrap = |call: Value| match call.get_attr("function") {
        Ok(function) if !function.is_undefined() => call,
        _ => Value::from(Serde(Wrapped { r#type: "function", function: call })),
    };
    Ok(calls.into_iter().map(wrap).collect())
}
