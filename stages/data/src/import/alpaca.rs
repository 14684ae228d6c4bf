//! Implements the format `alpaca`: an `instruction`, an optional `input` and the `output`, as in Stanford Alpaca, with
//! the optional columns `system` and `history` of LLaMA-Factory.
//!
//! The user's message is the instruction, followed by an empty line and the input if the row has one. `history` is a
//! list of pairs, each a question and its answer, which come before.

use super::chat::{trajectory, with_system};
use super::format::{ImportContext, ImportFormat, RowConverter, is_text, text_column};
use serde_json::{Map, Value};
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_tables::Message;

/// Fills `trajectories`.
pub struct AlpacaImport;

impl ImportFormat for AlpacaImport {
    fn name(&self) -> &'static str {
        "alpaca"
    }
    fn summary(&self) -> &'static str {
        "instructions with an input and an output"
    }
    fn outputs(&self) -> &'static [&'static str] {
        &["trajectories"]
    }
    fn recognizes(&self, columns: &Map<String, Value>) -> bool {
        let others = ["answer", "conversation", "conversations", "messages", "prompt", "question", "reward_model"];
        is_text(columns, "instruction")
            && is_text(columns, "output")
            && !others.iter().any(|column| columns.contains_key(*column))
            && !super::preferences::is_pair(columns)
    }
    fn columns(&self) -> &'static [&'static str] {
        &[
            "instruction",
            "input",
            "output",
            "system",
            "history",
            "tools",
            "functions",
            "image",
            "images",
            "videos",
            "audios",
        ]
    }
    fn open<'r>(&'r self, _: &Path, reading: &'r ImportContext) -> Result<RowConverter<'r>> {
        Ok(Box::new(move |row| Ok(trajectory(row, conversation(&row.columns)?, reading)?.into())))
    }
}

fn conversation(row: &Map<String, Value>) -> Result<Vec<Message>> {
    let (instruction, output) = (text_column(row, "instruction")?, text_column(row, "output")?);
    let input = match row.get("input") {
        None | Some(Value::Null) => "",
        Some(Value::String(text)) => text.as_str(),
        Some(_) => return Err(Error::data("`input` is not text")),
    };
    let request = if input.is_empty() { instruction.to_string() } else { format!("{instruction}\n\n{input}") };
    let mut messages = history(row.get("history"))?;
    messages.extend([Message::new("user", request), Message::new("assistant", output)]);
    Ok(with_system(row, messages))
}

fn history(value: Option<&Value>) -> Result<Vec<Message>> {
    let wrong = || Error::data("`history` is not a list of pairs of texts: `[[question, answer], …]`");
    let pairs = match value {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(list) => list.as_array().ok_or_else(wrong)?,
    };
    let mut messages = Vec::new();
    for pair in pairs {
        let texts: Option<Vec<&str>> = pair.as_array().and_then(|pair| pair.iter().map(Value::as_str).collect());
        let Some([question, answer]) = texts.as_deref() else { return Err(wrong()) };
        messages.extend([Message::new("user", *question), Message::new("assistant", *answer)]);
    }
    Ok(messages)
}
