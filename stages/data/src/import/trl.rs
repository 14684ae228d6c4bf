//! Implements the format `trl`: rows of TRL's trainers, either `messages`, or `prompt` and `completion`, each of which
//! is text or messages.

use super::chat::{conversation, text_or_messages, trajectory};
use super::format::{ImportContext, ImportFormat, RowConverter, names};
use serde_json::{Map, Value};
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_tables::Message;

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
    fn open<'r>(&'r self, _: &Path, reading: &'r ImportContext) -> Result<RowConverter<'r>> {
        Ok(Box::new(move |row| Ok(trajectory(row, conversation_messages(&row.columns)?, reading)?.into())))
    }
}

fn completion(row: &Map<String, Value>) -> Option<&Value> {
    ["completion", "response"].iter().find_map(|column| row.get(*column))
}

fn conversation_messages(row: &Map<String, Value>) -> Result<Vec<Message>> {
    match (row.get("messages"), row.get("prompt"), completion(row)) {
        (Some(_), ..) => conversation(row, &["messages"], "message"),
        (None, Some(prompt), Some(completion)) => {
            let mut all = text_or_messages(prompt, "user")?;
            all.extend(text_or_messages(completion, "assistant")?);
            Ok(all)
        }
        _ => Err(Error::data(format!(
            "neither `messages` nor `prompt` and `completion` are present; the columns are: {}",
            names(row)
        ))),
    }
}
