//! Implements the format `sharegpt`: `{"conversations": [{"from": "human", "value": "…"}]}`, optionally with `system`
//! and `tools`.

use super::chat::{conversation, trajectory};
use super::format::{ImportContext, ImportFormat, RowConverter, is_first};
use serde_json::{Map, Value};
use std::path::Path;
use trainyard_core::Result;

const COLUMNS: [&str; 2] = ["conversations", "conversation"];

/// Fills `trajectories`.
pub struct ShareGptImport;

impl ImportFormat for ShareGptImport {
    fn name(&self) -> &'static str {
        "sharegpt"
    }
    fn summary(&self) -> &'static str {
        "conversations of ShareGPT"
    }
    fn outputs(&self) -> &'static [&'static str] {
        &["trajectories"]
    }
    fn recognizes(&self, columns: &Map<String, Value>) -> bool {
        COLUMNS.iter().any(|column| columns.contains_key(*column))
            && !columns.contains_key("messages")
            && !super::preferences::is_pair(columns)
    }
    fn columns(&self) -> &'static [&'static str] {
        &["conversations", "conversation", "system", "tools", "functions", "image", "images", "videos", "audios"]
    }
    fn reads(&self, column: &str, row: &Map<String, Value>) -> bool {
        if COLUMNS.contains(&column) { is_first(column, &COLUMNS, row) } else { self.columns().contains(&column) }
    }
    fn open<'r>(&'r self, _: &Path, reading: &'r ImportContext) -> Result<RowConverter<'r>> {
        Ok(Box::new(move |row| {
            let messages = conversation(&row.columns, &COLUMNS, "turn")?;
            Ok(trajectory(row, messages, reading)?.into())
        }))
    }
}
