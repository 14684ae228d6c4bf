//! Implements the format `openai`: chat fine-tuning rows, `{"messages": [...]}`, with tool calls and tools.

use super::chat::{conversation, trajectory};
use super::format::{ImportContext, ImportFormat, RowConverter};
use serde_json::{Map, Value};
use std::path::Path;
use trainyard_core::Result;

/// Fills `trajectories`.
pub struct OpenAiImport;

impl ImportFormat for OpenAiImport {
    fn name(&self) -> &'static str {
        "openai"
    }
    fn summary(&self) -> &'static str {
        "conversations for OpenAI fine-tuning"
    }
    fn outputs(&self) -> &'static [&'static str] {
        &["trajectories"]
    }
    fn recognizes(&self, columns: &Map<String, Value>) -> bool {
        columns.contains_key("messages") && !super::jsonl::has_answer(columns) && !super::preferences::is_pair(columns)
    }
    fn columns(&self) -> &'static [&'static str] {
        &["messages", "system", "tools", "functions", "image", "images", "videos", "audios"]
    }
    fn open<'r>(&'r self, _: &Path, reading: &'r ImportContext) -> Result<RowConverter<'r>> {
        Ok(Box::new(move |row| {
            let messages = conversation(&row.columns, &["messages"], "message")?;
            Ok(trajectory(row, messages, reading)?.into())
        }))
    }
}
