//! Reads the events of a running trainer, which it appends to a file as lines of JSON.
//!
//! `{"step": 3, "steps": 100, "metrics": {"loss": 1.25}}` reports progress and adds a point to each learning curve.
//! `{"checkpoint": "/…/checkpoint-50", "step": 50}` reports that a folder is complete, so that training can resume from
//! it.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

/// Maximum bytes of one event.
const MAX_EVENT_BYTES: usize = 1 << 20;

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
pub struct TrainerEventReader {
    path: PathBuf,
    read: u64,
    /// Bytes of the unfinished last line.
    partial: Vec<u8>,
    lines: u64,
}

impl TrainerEventReader {
    /// Creates a reader of the file `path`, which need not exist yet.
    pub fn new(path: PathBuf) -> Self {
        Self { path, read: 0, partial: Vec::new(), lines: 0 }
    }
    /// Reads the events that were appended since the last call. Errors: data (a line that is not an event, with its
    /// number), and those of reading.
    pub fn read_new(&mut self) -> Result<Vec<TrainerEvent>> {
        let Ok(mut file) = File::open(&self.path) else { return Ok(Vec::new()) };
        let mut events = Vec::new();
        let read = file.seek(SeekFrom::Start(self.read)).and_then(|_| file.read_to_end(&mut self.partial));
        self.read += read.map_err(|e| io_error(&self.path, &e))? as u64;
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            self.lines += 1;
            if !line.trim_ascii().is_empty() {
                events.push(serde_json::from_slice(&line).map_err(|e| self.broken(&line, &e.to_string()))?);
            }
        }
        if self.partial.len() > MAX_EVENT_BYTES {
            self.lines += 1;
            return Err(self.broken(&self.partial, "it is longer than 1 MiB"));
        }
        Ok(events)
    }
    fn broken(&self, line: &[u8], reason: &str) -> Error {
        let shown: String = String::from_utf8_lossy(line).trim_end().chars().take(200).collect();
        Error::data(format!("line {} of the trainer's events is not a valid event: {reason}: {shown}", self.lines))
            .help("write one JSON object on each line, such as {\"step\": 3, \"metrics\": {\"loss\": 1.25}}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

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
            (&"x".repeat(MAX_EVENT_BYTES + 1), "longer than 1 MiB"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("events");
            std::fs::write(&path, text).unwrap();
            let error = TrainerEventReader::new(path).read_new().unwrap_err();
            assert!(error.message.contains(message), "{error}");
        }
    }
}
