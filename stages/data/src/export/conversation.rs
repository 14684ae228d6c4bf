//! Converts conversations for other programs: separates the text and the calls of each message, and marks the messages
//! that are not in the loss.
//!
//! Our record contains an agent's calls twice, in the sampled text and parsed. Other programs render the parsed calls
//! with their template, so the exported text must not contain them as well.

use super::omissions::ExportOmissions;
use super::turns::context;
use crate::tool_text::{RawToolCall, assistant, parsed_calls};
use trainyard_core::error::Context as _;
use trainyard_core::{Error, Result};
use trainyard_tables::{Message, OrderedValue, Trajectory};

/// Markers that open a call in the text of an agent, by the formats of the model families.
const CALL_MARKERS: [&str; 5] = ["<tool_call>", "[TOOL_CALLS]", "<|tool_call>", "<|python_tag|>", "<function="];

/// A message with its calls separated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportMessage<'m> {
    /// Stored message.
    pub message: &'m Message,
    /// Text without the calls.
    pub text: String,
    /// Calls of an assistant.
    pub calls: Vec<RawToolCall>,
    /// Whether the message is an assistant's but excluded from the loss.
    pub is_context: bool,
}

/// Returns the messages of a trajectory with their calls separated, and counts omissions. Errors: data naming the row,
/// if its calls are not JSON.
pub fn trajectory_messages<'m>(row: &'m Trajectory, omissions: &mut ExportOmissions) -> Result<Vec<ExportMessage<'m>>> {
    let context = context(row);
    let exported = messages(&row.messages, omissions).map_err(|e| e.at(format!("row `{}`", row.id)))?;
    Ok(exported
        .into_iter()
        .enumerate()
        .map(|(i, message)| ExportMessage { is_context: context.contains(&i), ..message })
        .collect())
}

/// Separates the calls of messages that do not belong to a trajectory; all of these messages are in the loss. Errors:
/// data naming the message, if its calls are not JSON.
pub fn messages<'m>(messages: &'m [Message], omissions: &mut ExportOmissions) -> Result<Vec<ExportMessage<'m>>> {
    let read = |(i, message): (usize, &'m Message)| -> Result<ExportMessage<'m>> {
        let calls = message.tool_calls.as_deref().map(parsed_calls).transpose();
        let (calls, separate) = calls.at(format!("message {}", i + 1))?.unwrap_or_default();
        let text = if calls.is_empty() || separate {
            message.content.clone()
        } else {
            text_without_calls(&message.content, &calls, omissions)
        };
        Ok(ExportMessage { message, text, calls, is_context: false })
    };
    messages.iter().enumerate().map(read).collect()
}

/// Returns the text of a message's content without its calls. Counts an omission if the calls are not in Hermes' form.
fn text_without_calls(content: &str, calls: &[RawToolCall], omissions: &mut ExportOmissions) -> String {
    let written = assistant("", calls).content;
    if let Some(before) = content.strip_suffix(&written)
        && (before.is_empty() || before.ends_with('\n'))
    {
        return before.strip_suffix('\n').unwrap_or(before).to_string();
    }
    if !content.is_empty() {
        omissions.add("the text form of calls that are not in Hermes' form (the calls are kept)", 1);
    }
    let end = CALL_MARKERS.iter().filter_map(|opener| content.find(opener)).min();
    let end = end.unwrap_or_else(|| if content.trim_start().starts_with(['{', '[']) { 0 } else { content.len() });
    content[..end].trim_end().to_string()
}

/// Returns the tools of a row as JSON, or `None` if the row stores no tools because a message describes them. Errors:
/// data, if the tools are not JSON.
pub fn tools(row: &Trajectory) -> Result<Option<OrderedValue>> {
    let tools = row.tools.as_deref().or(row.environment_tools.as_deref());
    let read = |e: Error| e.at(format!("the tools of row `{}`", row.id));
    tools.map(OrderedValue::raw_json).transpose().map_err(read)
}

/// Form of a message's calls in a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallForm {
    /// Whether arguments are JSON text instead of an object.
    pub text_arguments: bool,
}

/// Returns a call in OpenAI's form. Errors: data, if the arguments are not JSON.
pub fn call(call: &RawToolCall, form: CallForm) -> Result<OrderedValue> {
    let arguments = match form.text_arguments {
        true => OrderedValue::from(call.arguments.as_str()),
        false => OrderedValue::raw_json(&call.arguments)?,
    };
    let function = OrderedValue::object([("name", OrderedValue::from(call.name.as_str())), ("arguments", arguments)]);
    let id = call.id.as_deref().map(|id| ("id".to_string(), OrderedValue::from(id)));
    let rest = [("type".to_string(), OrderedValue::from("function")), ("function".to_string(), function)];
    Ok(OrderedValue::Object(id.into_iter().chain(rest).collect()))
}

/// Returns a message in the form that TRL and verl read. `weight` is 0 for an assistant message out of the loss.
pub fn chat(exported: &ExportMessage<'_>, form: CallForm) -> Result<OrderedValue> {
    let text = |value: &Option<String>| value.as_deref().map(OrderedValue::from);
    let calls = exported.calls.iter().map(|one| call(one, form)).collect::<Result<Vec<_>>>()?;
    let row = OrderedValue::object([
        ("role", OrderedValue::from(exported.message.role.as_str())),
        ("content", OrderedValue::from(exported.text.as_str())),
    ]);
    Ok(row
        .with("reasoning_content", text(&exported.message.reasoning_content))
        .with("tool_calls", (!calls.is_empty()).then_some(OrderedValue::List(calls)))
        .with("name", text(&exported.message.name))
        .with("tool_call_id", text(&exported.message.tool_call_id))
        .with("weight", exported.is_context.then_some(OrderedValue::Int(0))))
}

/// Returns all messages as a list, each in the form of [`chat`].
pub fn chats(messages: &[ExportMessage<'_>], form: CallForm) -> Result<OrderedValue> {
    messages.iter().map(|message| chat(message, form)).collect::<Result<_>>().map(OrderedValue::List)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(message: &Message) -> (String, usize, u64) {
        let mut omissions = ExportOmissions::default();
        let exported = messages(std::slice::from_ref(message), &mut omissions).unwrap();
        (exported[0].text.clone(), exported[0].calls.len(), omissions.counts().map(|(_, n)| n).sum())
    }

    #[test]
    fn text_and_calls_are_separated() {
        let call = RawToolCall { id: None, name: "add".into(), arguments: r#"{"b": 1, "a": 2}"#.into() };
        for text in ["", "Let me see.", "Two\nlines "] {
            assert_eq!(split(&assistant(text, &[call.clone(), call.clone()])), (text.to_string(), 2, 0));
        }
        let ours = |content: &str| Message {
            tool_calls: Some(r#"[{"arguments": {"a": 1}, "name": "f"}]"#.into()),
            ..Message::new("assistant", content)
        };
        assert_eq!(split(&ours("I call <tool_call>f(1)</tool_call>")), ("I call".to_string(), 1, 1));
        assert_eq!(split(&ours(" {\"name\": …")), (String::new(), 1, 1));
        assert_eq!(split(&ours("")), (String::new(), 1, 0));
        let openai = Message {
            tool_calls: Some(r#"[{"id": "c", "function": {"name": "f", "arguments": "{}"}}]"#.into()),
            ..Message::new("assistant", "<tool_call> is how calls begin")
        };
        assert_eq!(split(&openai), ("<tool_call> is how calls begin".to_string(), 1, 0));
        let broken = Message { tool_calls: Some("f(1)".into()), ..Message::new("assistant", "") };
        let row = Trajectory { id: "r7".into(), messages: vec![broken], ..Trajectory::default() };
        let error = trajectory_messages(&row, &mut ExportOmissions::default()).unwrap_err();
        assert!(error.to_string().contains("r7") && error.to_string().contains("message 1"), "{error}");
    }
}
