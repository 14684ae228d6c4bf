//! Reads the events of a running trainer, which it appends to a file as lines of JSON.
//!
//! `{"step": 3, "steps": 100, "metrics": {"loss": 1.25}}` reports progress and adds a point to each learning curve.
//! `{"checkpoint": "/…/checkpoint-50", "step": 50}` reports that a folder is complete, so that training can resume from
//! it.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use trainyard_api::appended_lines::{AppendedLine, AppendedLines};
use trainyard_core::error::Context as _;
use trainyard_core::{Error, Result};

/// Help text for an invalid event.
const EVENT: &str = "write one JSON object on each line, such as {\"step\": 3, \"metrics\": {\"loss\": 1.25}}";

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainerEvent {
    /// Number of finished optimizer steps.
    pub step: u64,
    /// Total number of steps, once it is known.
    #[serde(default)]
    pub steps: Option<u64>,
    /// Values at this step. A value that is null (JSON has no NaN) ends the stage.
    #[serde(default)]
    pub metrics: BTreeMap<String, Option<f64>>,
    /// Folder from which training can resume after this step.
    #[serde(default)]
    pub checkpoint: Option<PathBuf>,
}

/// Reader of a growing file of events.
pub struct TrainerEventReader(AppendedLines);

impl TrainerEventReader {
    /// Creates a reader of the file `path`, which need not exist yet.
    pub fn new(path: PathBuf) -> Self {
        Self(AppendedLines::new(path))
    }
    /// Reads the events that were appended since the last call. Errors: data (a line that is not an event, with its
    /// number), and those of reading.
    pub fn read_new(&mut self) -> Result<Vec<TrainerEvent>> {
        self.0.read_new().at("the trainer's events")?.iter().map(event).collect()
    }
}

fn event(line: &AppendedLine) -> Result<TrainerEvent> {
    serde_json::from_slice(&line.text).map_err(|e| {
        let (number, shown) = (line.number, line.excerpt());
        Error::data(format!("line {number} of the trainer's events is not a valid event: {e}: {shown}")).help(EVENT)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write as _;
    use trainyard_api::appended_lines::MAX_LINE_BYTES;

    #[test]
    fn lines_are_read_once_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events");
        let mut events = TrainerEventReader::new(path.clone());
        assert_eq!(events.read_new().unwrap(), []);
        let mut file = File::create(&path).unwrap();
        file.write_all(b"{\"step\": 1, \"metrics\": {\"loss\": 0.5}}\n\n{\"step\": 2, \"ste").unwrap();
        let first = events.read_new().unwrap();
        assert_eq!((first.len(), first[0].metrics["loss"]), (1, Some(0.5)));
        file.write_all(b"ps\": 9, \"checkpoint\": \"/x\"}\n").unwrap();
        let second = events.read_new().unwrap();
        assert_eq!((second[0].step, second[0].steps, second[0].checkpoint.clone()), (2, Some(9), Some("/x".into())));
        assert_eq!(events.read_new().unwrap(), []);
    }

    #[test]
    fn invalid_event_is_reported_with_line() {
        for (text, message) in [
            ("{\"step\": 1}\nStep 2\n", "line 2"),
            ("{\"stepp\": 1}\n", "stepp"),
            ("{\"step\": -1}\n", "line 1"),
            (&"x".repeat(MAX_LINE_BYTES + 1), "longer than 1 MiB"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("events");
            std::fs::write(&path, text).unwrap();
            let error = TrainerEventReader::new(path).read_new().unwrap_err();
            assert!(error.message.contains(message), "{error}");
        }
    }
}
