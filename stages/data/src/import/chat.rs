//! Converts conversations in other formats to our messages and trajectories, for all formats of conversations.
//!
//! In any format, a message may have OpenAI's form (`role`, `content`) or ShareGPT's form (`from`, `value`).

use super::format::{ImportContext, ImportRow, missing};
use crate::identity::problem_id;
use crate::tool_text::{RawToolCall, assistant, read_call, read_call_texts};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use trainyard_core::{Digest, Error, Result};
use trainyard_tables::{Message, StopReason, Trajectory};

/// Keys under which programs store the reasoning before an answer.
const REASONING: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

/// Reads a list of messages, which may be written as JSON text. `item` names a list item in errors.
pub fn messages(list: &Value, item: &str) -> Result<Vec<Message>> {
    let parsed: Value;
    let list = match list {
        Value::String(text) => {
            parsed =
                serde_json::from_str(text).map_err(|_| Error::data(format!("the {item}s are text, not a list")))?;
            &parsed
        }
        other => other,
    };
    let list = list.as_array().ok_or_else(|| Error::data(format!("the {item}s are not a list")))?;
    let read = |(i, m): (usize, &Value)| message(m).map_err(|e| e.at(format!("{item} {}", i + 1)));
    list.iter().enumerate().map(read).collect()
}

/// Reads a prompt or a completion, which is text (one message with the role `role`) or a list of messages.
pub fn text_or_messages(value: &Value, role: &str) -> Result<Vec<Message>> {
    match value {
        Value::String(text) => Ok(vec![Message::new(role, text.as_str())]),
        list => messages(list, "message"),
    }
}

fn message(value: &Value) -> Result<Message> {
    let object = value.as_object().ok_or_else(|| Error::data("not an object"))?;
    let name = ["role", "from"].iter().find_map(|key| object.get(*key)).and_then(Value::as_str);
    let name = name.ok_or_else(|| Error::data("the message has neither `role` nor `from`"))?;
    if name == "function_call" {
        return function_call_message(object);
    }
    let role = role(name)?;
    let (content, reasoning) = content(object)?;
    let text = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_string);
    let calls = if role == "assistant" { calls(object)? } else { Vec::new() };
    Ok(Message {
        role: role.into(),
        name: text("name").filter(|name| !name.is_empty()),
        reasoning_content: reasoning,
        tool_call_id: if role == "tool" { text("tool_call_id") } else { None },
        ..assistant(&content, &calls)
    })
}

/// Returns our name of a role. Errors: data, if the role is unknown.
fn role(name: &str) -> Result<&'static str> {
    Ok(match name {
        "system" | "developer" => "system",
        "user" | "human" => "user",
        "assistant" | "gpt" | "chatgpt" | "model" => "assistant",
        "tool" | "function" | "observation" | "function_response" => "tool",
        other => {
            return Err(Error::data(format!(
                "unknown role `{other}`; use system, developer, user, human, assistant, gpt, model, tool, function, \
                 observation or function_call"
            )));
        }
    })
}

/// Reads a ShareGPT turn that consists of calls.
fn function_call_message(turn: &Map<String, Value>) -> Result<Message> {
    let value = ["value", "content"].iter().find_map(|key| turn.get(*key)).cloned().unwrap_or_default();
    let calls = match &value {
        Value::String(text) => read_call_texts(text)?,
        Value::Array(calls) => calls.iter().map(read_call).collect::<Result<_>>()?,
        one => vec![read_call(one)?],
    };
    Ok(assistant("", &calls))
}

/// Returns the calls of an assistant message: those of `tool_calls`, or the single `function_call` of older files.
fn calls(message: &Map<String, Value>) -> Result<Vec<RawToolCall>> {
    match (message.get("tool_calls"), message.get("function_call")) {
        (Some(Value::Array(calls)), _) if !calls.is_empty() => calls.iter().map(read_call).collect(),
        (_, Some(call)) if call.is_object() => Ok(vec![read_call(call)?]),
        _ => Ok(Vec::new()),
    }
}

/// Returns the text of a message and the reasoning before the text, or `None` without reasoning.
fn content(message: &Map<String, Value>) -> Result<(String, Option<String>)> {
    let mut reasoning: Option<String> =
        REASONING.iter().find_map(|key| message.get(*key)).and_then(Value::as_str).map(str::to_string);
    let text = match message.get("content").or_else(|| message.get("value")) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let mut joined = String::new();
            for part in parts {
                match part {
                    Value::String(text) => joined.push_str(text),
                    part => match (part.get("text").and_then(Value::as_str), part.get("thinking")) {
                        (Some(text), _) => joined.push_str(text),
                        (None, Some(Value::String(thought))) => {
                            reasoning.get_or_insert_default().push_str(thought);
                        }
                        _ => return Err(not_text(part)),
                    },
                }
            }
            joined
        }
        Some(_) => return Err(Error::data("`content` is neither text nor a list of parts")),
    };
    Ok((text, reasoning.filter(|text| !text.is_empty())))
}

fn not_text(part: &Value) -> Error {
    let kind = part.get("type").and_then(Value::as_str).unwrap_or("unknown");
    Error::data(format!("a content part is of type `{kind}`; only text can be imported"))
}

/// Counts the assistant messages with `weight: 0` that a tool result follows. These are failed calls, whose turns
/// training leaves out of the loss.
fn unlearned_calls(row: &Map<String, Value>) -> u32 {
    let Some(Value::Array(list)) = row.get("messages") else { return 0 };
    let is = |message: &Value, role: &str| message.get("role").and_then(Value::as_str) == Some(role);
    let unlearned = |message: &Value| message.get("weight").and_then(Value::as_f64) == Some(0.0);
    let failed = |pair: &&[Value]| is(&pair[0], "assistant") && unlearned(&pair[0]) && is(&pair[1], "tool");
    list.windows(2).filter(failed).count() as u32
}

/// Returns the tools that a row offers, as JSON text of a list of `{"type": "function", "function": {…}}` with keys in
/// the file's order, or `None` if the row offers no tools. The column may contain a list, JSON text of a list, or a
/// list of JSON texts.
pub fn tools(row: &Map<String, Value>) -> Result<Option<String>> {
    let text = match ["tools", "functions"].iter().find_map(|key| row.get(*key)) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(list) => list.to_string(),
    };
    let wrong = |e: serde_json::Error| Error::data(format!("`tools` is not a JSON list of tools: {e}"));
    let items: Vec<&RawValue> = match text.trim_start().starts_with('{') {
        true => vec![serde_json::from_str(&text).map_err(wrong)?],
        false => serde_json::from_str::<Option<_>>(&text).map_err(wrong)?.unwrap_or_default(),
    };
    let tools: Vec<String> = items.into_iter().map(tool).collect::<Result<_>>()?;
    Ok((!tools.is_empty()).then(|| format!("[{}]", tools.join(", "))))
}

/// Keys of a tool's description that determine its form.
#[derive(Deserialize)]
struct ToolDefinition {
    name: Option<String>,
    function: Option<Box<Self>>,
}

fn tool(item: &RawValue) -> Result<String> {
    let wrong =
        |e: serde_json::Error| Error::data(format!("`tools` has an entry that does not describe a function: {e}"));
    let text = match item.get() {
        quoted if quoted.starts_with('"') => serde_json::from_str(quoted).map_err(wrong)?,
        plain => plain.to_string(),
    };
    match serde_json::from_str(&text).map_err(wrong)? {
        ToolDefinition { function: Some(function), .. } if function.name.is_some() => Ok(text),
        ToolDefinition { function: None, name: Some(_) } => {
            Ok(format!(r#"{{"type": "function", "function": {text}}}"#))
        }
        _ => Err(Error::data("a tool of `tools` has no `name`")),
    }
}

/// Reads the conversation in the first of `columns` that the row has, and puts the row's `system` before it. `item`
/// names a message in errors.
pub fn conversation(row: &Map<String, Value>, columns: &[&str], item: &str) -> Result<Vec<Message>> {
    let list = columns.iter().find_map(|column| row.get(*column));
    let conversation = messages(list.ok_or_else(|| missing(row, &format!("list `{}`", columns[0])))?, item)?;
    Ok(with_system(row, conversation))
}

/// Puts the row's `system` before a conversation, if it has that column.
pub fn with_system(row: &Map<String, Value>, conversation: Vec<Message>) -> Vec<Message> {
    let system = row.get("system").and_then(Value::as_str).filter(|text| !text.is_empty());
    system.map(|text| Message::new("system", text)).into_iter().chain(conversation).collect()
}

/// Converts a finished conversation to a trajectory without tokens. Errors: data, if the conversation has no user
/// message or no assistant message, or if the row has images, videos or audio.
pub fn trajectory(row: &ImportRow, messages: Vec<Message>, reading: &ImportContext) -> Result<Trajectory> {
    for column in ["images", "image", "videos", "audios"] {
        let given = row.columns.get(column).is_some_and(|v| !v.is_null() && v.as_array().is_none_or(|l| !l.is_empty()));
        if given {
            return Err(Error::data(format!("the row has `{column}`; only text can be imported")));
        }
    }
    let question = messages
        .iter()
        .find(|m| m.role == "user")
        .map(|m| m.content.clone())
        .ok_or_else(|| Error::data("no user message"))?;
    let turns = messages.iter().filter(|m| m.role == "assistant").count() as u32;
    if turns == 0 {
        return Err(Error::data("no assistant message"));
    }
    let calls = messages
        .iter()
        .filter_map(|m| m.tool_calls.as_deref())
        .map(|text| serde_json::from_str::<Vec<Value>>(text).map_or(0, |c| c.len() as u32))
        .sum();
    let last = messages.last().filter(|m| m.role == "assistant" && m.tool_calls.is_none()).map(|m| m.content.clone());
    Ok(Trajectory {
        id: format!("{}-{}-{}", reading.name, row.place, &Digest::of_json(&messages)?.short()[..8]),
        problem_id: problem_id(&reading.name, &question),
        stop_reason: if last.is_some() { StopReason::Answer } else { StopReason::End },
        answer: last,
        turns,
        tool_calls: calls,
        environment: reading.environment_or("math-problems"),
        tools: tools(&row.columns)?,
        tool_errors: unlearned_calls(&row.columns),
        messages,
        ..Trajectory::default()
    })
}
