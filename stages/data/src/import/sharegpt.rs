//! Format `sharegpt`: `{"conversations": [{"from": "human", "value": "…"}]}`, optionally with `system`.
//!
//! Roles are human/user, gpt/assistant, system, tool/observation (a tool's result) and function_call (a call as JSON
//! text, which becomes an assistant turn).

use super::chat::{question, trajectory};
use super::format::{Format, Imported, Reading, names, read_objects, row_error};
use crate::tool_text::{assistant, read_call};
use serde_json::{Map, Value};
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_tables::Message;

/// Fills `trajectories`.
pub struct ShareGpt;

impl Format for ShareGpt {
    fn name(&self) -> &'static str {
        "sharegpt"
    }
    fn summary(&self) -> &'static str {
        "conversations of ShareGPT"
    }
    fn yields(&self) -> &'static [&'static str] {
        &["trajectories"]
    }
    fn read(&self, file: &Path, reading: &Reading) -> Result<Imported> {
        let mut imported = Imported::default();
        for (line, row) in read_objects(file)? {
            if reading.is_full(imported.trajectories.len()) {
                break;
            }
            let at = |e: Error| row_error(file, line, e.message);
            let messages = conversation(&row).map_err(at)?;
            if reading.wants(question(&messages)) {
                imported.trajectories.push(trajectory(messages, line, reading).map_err(at)?);
            }
        }
        Ok(imported)
    }
}

fn conversation(row: &Map<String, Value>) -> Result<Vec<Message>> {
    let turns = row
        .get("conversations")
        .and_then(Value::as_array)
        .ok_or_else(|| Error::data(format!("missing list `conversations`; the columns are: {}", names(row))))?;
    let system = row.get("system").and_then(Value::as_str).filter(|s| !s.is_empty());
    let mut all: Vec<Message> = system.map(|s| Message::new("system", s)).into_iter().collect();
    for (i, turn) in turns.iter().enumerate() {
        let message = message(turn).map_err(|e| Error::data(format!("turn {}: {}", i + 1, e.message)))?;
        all.push(message);
    }
    Ok(all)
}

fn message(turn: &Value) -> Result<Message> {
    let field = |name: &str| {
        turn.get(name).and_then(Value::as_str).ok_or_else(|| Error::data(format!("missing text `{name}`")))
    };
    let (from, value) = (field("from")?, field("value")?);
    Ok(match from {
        "human" | "user" => Message::new("user", value),
        "gpt" | "assistant" => Message::new("assistant", value),
        "system" => Message::new("system", value),
        "tool" | "observation" => Message::new("tool", value),
        "function_call" => {
            let call: Value =
                serde_json::from_str(value).map_err(|e| Error::data(format!("`function_call` is not JSON: {e}")))?;
            assistant("", &[read_call(&call)?])
        }
        other => {
            return Err(Error::data(format!(
                "unknown role `{other}`; use human, gpt, system, tool, observation or function_call"
            )));
        }
    })
}
