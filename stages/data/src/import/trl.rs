//! Format `trl`: rows of TRL's trainers, either `messages`, or `prompt` and `completion`, each text or messages.

use super::chat::{completion_messages, messages, prompt_messages, question, trajectory};
use super::format::{Format, Imported, Reading, names, read_objects, row_error};
use serde_json::{Map, Value};
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_tables::Message;

/// Fills `trajectories`.
pub struct Trl;

impl Format for Trl {
    fn name(&self) -> &'static str {
        "trl"
    }
    fn summary(&self) -> &'static str {
        "conversations for TRL"
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
    match (row.get("messages"), row.get("prompt"), row.get("completion")) {
        (Some(list), ..) => messages(list),
        (None, Some(prompt), Some(completion)) => {
            let mut all = prompt_messages(prompt)?;
            all.extend(completion_messages(completion)?);
            Ok(all)
        }
        _ => Err(Error::data(format!(
            "neither `messages` nor `prompt` and `completion` are present; the columns are: {}",
            names(row)
        ))),
    }
}
