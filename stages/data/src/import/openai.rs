//! Format `openai`: chat fine-tuning rows, `{"messages": [...]}`, with tool calls.

use super::chat::{messages, question, trajectory};
use super::format::{Format, Imported, Reading, names, read_objects, row_error};
use serde_json::{Map, Value};
use std::path::Path;
use trainyard_core::{Error, Result};

/// Fills `trajectories`.
pub struct OpenAi;

impl Format for OpenAi {
    fn name(&self) -> &'static str {
        "openai"
    }
    fn summary(&self) -> &'static str {
        "conversations for OpenAI fine-tuning"
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
            let list = row.get("messages").ok_or_else(|| {
                row_error(file, line, format!("missing column `messages`; the columns are: {}", names(&row)))
            })?;
            let messages = messages(list).map_err(at)?;
            if reading.wants(question(&messages)) {
                imported.tools_dropped += usize::from(offers_tools(&row));
                imported.trajectories.push(trajectory(messages, line, reading).map_err(at)?);
            }
        }
        Ok(imported)
    }
}

fn offers_tools(row: &Map<String, Value>) -> bool {
    ["tools", "functions"]
        .iter()
        .filter_map(|key| row.get(*key))
        .any(|list| list.as_array().is_some_and(|l| !l.is_empty()))
}
