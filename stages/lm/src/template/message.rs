//! Converts messages to the values that templates read.

use minijinja::Value;
use minijinja::value::Serde;
use serde::Serialize;
use std::collections::VecDeque;
use trainyard_core::{Error, Result};
use trainyard_tables::Message;

/// Form of an assistant's calls for a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CallStyle {
    /// Whether calls are separate from the text; otherwise an agent's text contains them as it wrote them.
    pub separate: bool,
    /// Whether a message with calls only has no content instead of an empty one.
    pub null_content: bool,
    /// Whether the arguments of a call are JSON text instead of an object.
    pub text_arguments: bool,
}

/// The fields of a message in their usual order.
#[derive(Serialize)]
struct TemplateMessage<'m> {
    role: &'m str,
    content: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<Vec<Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'m str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'m str>,
}

/// A call as OpenAI's interface wraps it.
#[derive(Serialize)]
struct TemplateCall {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    r#type: &'static str,
    function: TemplateFunction,
}

#[derive(Serialize)]
struct TemplateFunction {
    name: Value,
    arguments: Value,
}

/// Markers that open a call in the text of an agent, by the formats of the model families.
const OPENERS: [&str; 5] = ["<tool_call>", "[TOOL_CALLS]", "<|tool_call>", "<|python_tag|>", "<function="];

/// Returns all messages as values. Errors: calls that are not a JSON list.
///
/// The template writes calls in OpenAI's form (`{"function": …}`). Calls in Trainyard's form (`{"name", …}`) repeat
/// calls in the content, so the template gets them only if the content is empty or the style separates them. Such calls
/// have ids, and the results after the calls refer to these ids.
pub fn values(messages: &[Message], style: CallStyle) -> Result<Vec<Value>> {
    let mut ids = 0;
    // Ids and names of the last calls without a result.
    let mut open: VecDeque<(String, String)> = VecDeque::new();
    let mut values = Vec::with_capacity(messages.len());
    for message in messages {
        let given = message.tool_calls.as_deref().map(read_calls).transpose()?.unwrap_or_default();
        let ours = given.iter().all(|call| function_of(call).is_none());
        let separate = style.separate && ours && message.role == "assistant";
        let shown =
            if given.is_empty() || (ours && !separate && !message.content.is_empty()) { Vec::new() } else { given };
        if message.role == "assistant" {
            open.clear();
        }
        let mut calls = Vec::with_capacity(shown.len());
        for call in shown {
            ids += 1;
            let call = wrap(&call, ids, style)?;
            open.push_back((call.get_attr("id").map_err(rejected)?.to_string(), name_of(&call)?));
            calls.push(call);
        }
        let answered = if message.role == "tool" && style.separate { open.pop_front() } else { None };
        let (id, name) = answered.unzip();
        let content =
            if separate && !calls.is_empty() { text_before_calls(&message.content) } else { message.content.as_str() };
        values.push(Value::from(Serde(TemplateMessage {
            role: &message.role,
            content: Some(content).filter(|c| !(style.null_content && c.is_empty() && !calls.is_empty())),
            reasoning_content: message.reasoning_content.as_deref(),
            tool_calls: (!calls.is_empty()).then_some(calls),
            name: message.name.as_deref().or(name.as_deref()),
            tool_call_id: message.tool_call_id.as_deref().or(id.as_deref()),
        })));
    }
    Ok(values)
}

/// Returns whether a message has calls that the template must write.
pub fn has_calls_to_render(message: &Message) -> Result<bool> {
    let calls = message.tool_calls.as_deref().map(read_calls).transpose()?.unwrap_or_default();
    Ok(calls.iter().any(|call| message.content.is_empty() || function_of(call).is_some()))
}

/// Returns the message with its calls separated for the template, if they are still in its content.
pub fn with_separate_calls(message: &Message) -> Result<Message> {
    let calls = message.tool_calls.as_deref().map(read_calls).transpose()?.unwrap_or_default();
    if calls.is_empty() || calls.iter().any(|call| function_of(call).is_some()) {
        return Ok(message.clone());
    }
    let wrapped = calls.iter().map(|call| wrap(call, 0, CallStyle::default())).collect::<Result<Value>>()?;
    let calls = super::json::JsonStyle::new(None).text(&wrapped).map_err(rejected)?;
    let content = text_before_calls(&message.content).to_string();
    Ok(Message { content, tool_calls: Some(calls), ..message.clone() })
}

/// Returns the text before the first call.
fn text_before_calls(content: &str) -> &str {
    let end = OPENERS.iter().filter_map(|opener| content.find(opener)).min();
    let end = end.unwrap_or_else(|| if content.trim_start().starts_with(['{', '[']) { 0 } else { content.len() });
    content[..end].trim_end()
}

fn read_calls(json: &str) -> Result<Vec<Value>> {
    serde_json::from_str(json).map_err(|e| Error::data(format!("a message's tool calls are not a JSON list: {e}")))
}

fn function_of(call: &Value) -> Option<Value> {
    call.get_attr("function").ok().filter(|function| !function.is_undefined())
}

fn name_of(call: &Value) -> Result<String> {
    let function = function_of(call).unwrap_or_else(|| call.clone());
    Ok(function.get_attr("name").map_err(rejected)?.to_string())
}

/// Converts a call to OpenAI's form. A call that is already in OpenAI's form changes only in the form of its arguments.
fn wrap(call: &Value, number: usize, style: CallStyle) -> Result<Value> {
    let function = function_of(call).unwrap_or_else(|| call.clone());
    let id = call.get_attr("id").ok().filter(|id| !id.is_none() && !id.is_undefined());
    let arguments = function.get_attr("arguments").map_err(rejected)?;
    let arguments = match (style.text_arguments, arguments.as_str()) {
        (true, None) => Value::from(super::json::JsonStyle::new(None).text(&arguments).map_err(rejected)?),
        (false, Some(text)) => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
        _ => arguments,
    };
    // Nine letters and digits, which Mistral's templates require.
    let own = || style.separate.then(|| format!("call{number:05}"));
    Ok(Value::from(Serde(TemplateCall {
        id: id.map(|id| id.to_string()).or_else(own),
        r#type: "function",
        function: TemplateFunction { name: function.get_attr("name").map_err(rejected)?, arguments },
    })))
}

fn rejected(error: minijinja::Error) -> Error {
    Error::data(format!("a tool call cannot be read: {error}"))
}
