//! Converts conversations of other formats to our messages and trajectories; shared by the chat formats.

use super::format::Reading;
use crate::identity::problem_id;
use crate::tool_text::{assistant, read_call};
use serde_json::{Map, Value};
use trainyard_core::{Digest, Error, Result};
use trainyard_tables::{Message, StopReason, Trajectory};

/// Reads a list of `{role, content, tool_calls?}` (OpenAI). Content may be text, null or a list of text parts.
pub fn messages(list: &Value) -> Result<Vec<Message>> {
    let list = list.as_array().ok_or_else(|| Error::data("`messages` is not a list"))?;
    list.iter()
        .enumerate()
        .map(|(i, m)| message(m).map_err(|e| Error::data(format!("message {}: {}", i + 1, e.message))))
        .collect()
}

/// Reads a prompt: text (one user message) or a list of messages.
pub fn prompt_messages(prompt: &Value) -> Result<Vec<Message>> {
    match prompt {
        Value::String(text) => Ok(vec![Message::new("user", text.as_str())]),
        list => messages(list),
    }
}

/// Reads a completion: text (one assistant message) or a list of messages.
pub fn completion_messages(completion: &Value) -> Result<Vec<Message>> {
    match completion {
        Value::String(text) => Ok(vec![Message::new("assistant", text.as_str())]),
        list => messages(list),
    }
}

fn message(value: &Value) -> Result<Message> {
    let object = value.as_object().ok_or_else(|| Error::data("not an object"))?;
    let role = object.get("role").and_then(Value::as_str).ok_or_else(|| Error::data("missing `role`"))?;
    if !["system", "user", "assistant", "tool"].contains(&role) {
        return Err(Error::data(format!("unknown role `{role}`; use system, user, assistant or tool")));
    }
    let text = content(object)?;
    match object.get("tool_calls").and_then(Value::as_array) {
        Some(calls) if role == "assistant" => {
            Ok(assistant(&text, &calls.iter().map(read_call).collect::<Result<Vec<_>>>()?))
        }
        _ => Ok(Message::new(role, text)),
    }
}

fn content(message: &Map<String, Value>) -> Result<String> {
    match message.get("content") {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(Value::Array(parts)) => parts
            .iter()
            .map(|part| {
                part.get("text")
                    .and_then(Value::as_str)
                    .ok_or_else(|| Error::data("a content part is not text; only text parts can be imported"))
            })
            .collect(),
        Some(_) => Err(Error::data("`content` is neither text nor a list of text parts")),
    }
}

/// Makes a trajectory without tokens of a finished conversation. Fails without a user or an assistant message.
pub fn trajectory(messages: Vec<Message>, line: usize, reading: &Reading) -> Result<Trajectory> {
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
        id: format!("{}-{line}-{}", reading.name, &Digest::of_json(&messages)?.short()[..8]),
        problem_id: problem_id(&reading.name, &question),
        stop_reason: if last.is_some() { StopReason::Answer } else { StopReason::End },
        answer: last,
        turns,
        tool_calls: calls,
        environment: reading.environment_or("math-problems"),
        messages,
        ..Trajectory::default()
    })
}

/// The question, whose hash decides about the half.
pub fn question(messages: &[Message]) -> &str {
    messages.iter().find(|m| m.role == "user").map_or("", |m| &m.content)
}
