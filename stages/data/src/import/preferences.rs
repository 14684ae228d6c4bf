//! Implements the format `preferences`: pairs of a better and a worse answer, `chosen` and `rejected`, as for TRL's DPO
//! trainer.
//!
//! Each answer is text after `prompt`, messages after `prompt`, or a whole conversation. A pair becomes two
//! trajectories of one group: sample 0 with reward 1 is the chosen one, sample 1 with reward 0 the rejected one.

use super::chat::{messages, text_or_messages, trajectory};
use super::format::{ImportContext, ImportFormat, ImportRow, ImportedRows, RowConverter, is_first, missing};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;
use trainyard_core::{Error, Result};
use trainyard_tables::{Message, Trajectory};

/// Reward that distinguishes the chosen trajectory from the rejected one.
const REWARD: &str = "preference";

/// Columns with the prompt; the first present one counts.
const PROMPTS: [&str; 2] = ["prompt", "question"];

/// Fills `preferences`.
pub struct Preferences;

impl ImportFormat for Preferences {
    fn name(&self) -> &'static str {
        "preferences"
    }
    fn summary(&self) -> &'static str {
        "pairs of a chosen and a rejected answer"
    }
    fn outputs(&self) -> &'static [&'static str] {
        &["preferences"]
    }
    fn recognizes(&self, columns: &Map<String, Value>) -> bool {
        is_pair(columns)
    }
    fn columns(&self) -> &'static [&'static str] {
        &["chosen", "rejected", "prompt", "question", "tools", "functions", "image", "images", "videos", "audios"]
    }
    fn reads(&self, column: &str, row: &Map<String, Value>) -> bool {
        if PROMPTS.contains(&column) { is_first(column, &PROMPTS, row) } else { self.columns().contains(&column) }
    }
    fn open<'r>(&'r self, _: &Path, reading: &'r ImportContext) -> Result<RowConverter<'r>> {
        Ok(Box::new(move |row| pair(row, reading)))
    }
}

/// Returns whether a row has a chosen and a rejected answer.
pub fn is_pair(columns: &Map<String, Value>) -> bool {
    columns.contains_key("chosen") && columns.contains_key("rejected")
}

fn pair(row: &ImportRow, reading: &ImportContext) -> Result<ImportedRows> {
    let answered = |column: &str| {
        let answer = row.columns.get(column).ok_or_else(|| missing(&row.columns, &format!("column `{column}`")))?;
        conversation(&row.columns, answer).map_err(|e| e.at(format!("`{column}`")))
    };
    let (chosen, rejected) = (answered("chosen")?, answered("rejected")?);
    if chosen == rejected {
        return Err(Error::data("`chosen` and `rejected` are the same"));
    }
    let question = |all: &[Message]| all.iter().find(|m| m.role == "user").map(|m| m.content.clone());
    if question(&chosen) != question(&rejected) {
        return Err(Error::data("`chosen` and `rejected` answer different questions"));
    }
    let sample = |sample: u32, reward: f64, name: &str, messages: Vec<Message>| -> Result<Trajectory> {
        let row = trajectory(row, messages, reading).map_err(|e| e.at(format!("`{name}`")))?;
        Ok(Trajectory { sample, reward, rewards: BTreeMap::from([(REWARD.to_string(), reward)]), ..row })
    };
    let preferences = vec![sample(0, 1.0, "chosen", chosen)?, sample(1, 0.0, "rejected", rejected)?];
    Ok(ImportedRows { preferences, ..ImportedRows::default() })
}

/// Returns the conversation that ends with an answer: the answer itself if it contains the question, else the prompt
/// followed by the answer.
fn conversation(row: &Map<String, Value>, answer: &Value) -> Result<Vec<Message>> {
    let answer = match answer {
        Value::String(text) => vec![Message::new("assistant", text.as_str())],
        list => messages(list, "message")?,
    };
    let prompt = PROMPTS.iter().find_map(|column| row.get(*column));
    // After a prompt in messages, an answer that begins with the agent continues it, though the user may reply to it.
    let continues_prompt = prompt.is_some_and(Value::is_array) && answer.first().is_some_and(|m| m.role == "assistant");
    if !continues_prompt && answer.iter().any(|m| m.role == "user") {
        return Ok(answer);
    }
    let mut all = text_or_messages(prompt.ok_or_else(|| missing(row, "column `prompt`"))?, "user")?;
    all.extend(answer);
    Ok(all)
}
