//! Implements the format `trl`: rows of TRL's trainers, either `messages`, or `prompt` and `completion`, each of which
//! is text or messages; a column `system` becomes the first message.

use super::chat::{conversation, text_or_messages, trajectory, with_system};
use super::format::{ImportContext, ImportFormat, RowConverter, is_first, names};
use serde_json::{Map, Value};
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_tables::Message;

/// Columns with the answer; the first present one counts.
const COMPLETIONS: [&str; 2] = ["completion", "response"];

/// Fills `trajectories`.
pub struct TrlImport;

impl ImportFormat for TrlImport {
    fn name(&self) -> &'static str {
        "trl"
    }
    fn summary(&self) -> &'static str {
        "conversations for TRL"
    }
    fn outputs(&self) -> &'static [&'static str] {
        &["trajectories"]
    }
    fn recognizes(&self, columns: &Map<String, Value>) -> bool {
        columns.contains_key("prompt") && completion(columns).is_some() && !columns.contains_key("messages")
    }
    fn columns(&self) -> &'static [&'static str] {
        &[
            "messages",
            "prompt",
            "completion",
            "response",
            "system",
            "tools",
            "functions",
            "image",
            "images",
            "videos",
            "audios",
        ]
    }
    fn reads(&self, column: &str, row: &Map<String, Value>) -> bool {
        match column {
            "prompt" => !row.contains_key("messages"),
            "completion" | "response" => !row.contains_key("messages") && is_first(column, &COMPLETIONS, row),
            other => self.columns().contains(&other),
        }
    }
    fn open<'r>(&'r self, _: &Path, reading: &'r ImportContext) -> Result<RowConverter<'r>> {
        Ok(Box::new(move |row| Ok(trajectory(row, conversation_messages(&row.columns)?, reading)?.into())))
    }
}

fn completion(row: &Map<String, Value>) -> Option<&Value> {
    COMPLETIONS.iter().find_map(|column| row.get(*column))
}

fn conversation_messages(row: &Map<String, Value>) -> Result<Vec<Message>> {
    match (row.get("messages"), row.get("prompt"), completion(row)) {
        (Some(_), ..) => conversation(row, &["messages"], "message"),
        (None, Some(prompt), Some(completion)) => {
            let mut all = text_or_messages(prompt, "user")?;
            all.extend(text_or_messages(completion, "assistant")?);
            Ok(with_system(row, all))
        }
        _ => Err(Error::data(format!(
            "neither `messages` nor `prompt` and `completion` are present; the columns are: {}",
            names(row)
        ))),
    }
}
