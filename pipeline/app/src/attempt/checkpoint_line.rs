//! Parses the lines by which a command announces checkpoints.

use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use trainyard_api::appended_lines::AppendedLine;
use trainyard_core::{Error, Result};

/// Help text for a line that cannot be used.
const LINE: &str = "write lines like {\"checkpoint\": \"/path/of/folder\", \"step\": 50} once the folder is complete";

/// Returns whether a line of the file of metrics announces a checkpoint. A line with a name is a metric.
pub fn is_checkpoint(fields: &Map<String, Value>) -> bool {
    fields.contains_key("checkpoint") && !fields.contains_key("name")
}

/// Announcement of a complete folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointLine {
    /// Number of the line.
    pub number: u64,
    /// Number of steps after which the folder was complete.
    pub step: u64,
    pub folder: PathBuf,
}

impl CheckpointLine {
    /// Parses a line, in which a relative path is below `work`. Returns `None` for any other line, which is checked as
    /// a metric at the end of the command.
    pub fn of(line: &AppendedLine, work: &Path) -> Result<Option<Self>> {
        let Ok(Value::Object(fields)) = serde_json::from_slice(&line.text) else { return Ok(None) };
        if !is_checkpoint(&fields) {
            return Ok(None);
        }
        let invalid = |what: String| Error::data(what).help(LINE).at(place(line.number));
        let folder = match &fields["checkpoint"] {
            Value::String(folder) => work.join(folder),
            other => return Err(invalid(format!("`checkpoint` is {other}, which is not the path of a folder"))),
        };
        let step = match fields.get("step") {
            None => return Err(invalid("the line of a checkpoint has no `step`".into())),
            Some(step) => {
                step.as_u64().ok_or_else(|| invalid(format!("`step` is {step}, which is no whole number")))?
            }
        };
        Ok(Some(Self { number: line.number, step, folder }))
    }

    /// Checks that the folder exists. Errors: data.
    pub fn require_folder(&self) -> Result<()> {
        if self.folder.is_dir() {
            return Ok(());
        }
        let (step, folder) = (self.step, self.folder.display());
        Err(Error::data(format!("the checkpoint of step {step} is not a folder: {folder}")).help(LINE))
    }
}

/// Returns the place of a line in errors.
pub fn place(line: u64) -> String {
    format!("$TRAINYARD_METRICS line {line}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trainyard_core::ErrorKind;

    fn parse(text: &str) -> Result<Option<CheckpointLine>> {
        CheckpointLine::of(&AppendedLine { number: 3, text: text.into() }, Path::new("/work"))
    }

    #[test]
    fn checkpoints_are_told_from_metrics() {
        let line = |folder: &str| Some(CheckpointLine { number: 3, step: 50, folder: folder.into() });
        assert_eq!(parse(r#"{"checkpoint": "/a/b", "step": 50}"#).unwrap(), line("/a/b"));
        assert_eq!(parse(r#"{"step": 50, "checkpoint": "c/50", "more": null}"#).unwrap(), line("/work/c/50"));
        for other in [
            r#"{"name": "loss", "value": 0.5}"#,
            r#"{"name": "loss", "value": 0.5, "checkpoint": "/a", "step": 50}"#,
            r#"["checkpoint"]"#,
            r#"{"checkpoint": "/a""#,
            "\u{fffd}",
        ] {
            assert_eq!(parse(other).unwrap(), None, "{other}");
        }
    }

    #[test]
    fn invalid_lines_are_named() {
        for (line, message) in [
            (r#"{"checkpoint": "/a"}"#, "the line of a checkpoint has no `step`"),
            (r#"{"checkpoint": "/a", "step": -1}"#, "`step` is -1, which is no whole number"),
            (r#"{"checkpoint": "/a", "step": 1.5}"#, "`step` is 1.5, which is no whole number"),
            (r#"{"checkpoint": "/a", "step": "50"}"#, "`step` is \"50\", which is no whole number"),
            (r#"{"checkpoint": null, "step": 50}"#, "`checkpoint` is null, which is not the path of a folder"),
        ] {
            let error = parse(line).unwrap_err();
            assert_eq!(error.message, format!("$TRAINYARD_METRICS line 3: {message}"));
            assert_eq!((error.kind, error.help.as_deref()), (ErrorKind::Data, Some(LINE)));
        }
    }

    #[test]
    fn folder_must_exist() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let line = |folder: &Path| CheckpointLine { number: 3, step: 50, folder: folder.to_path_buf() };
        assert_eq!(line(folder.path()).require_folder(), Ok(()));
        let error = line(&file).require_folder().unwrap_err();
        assert_eq!(error.message, format!("the checkpoint of step 50 is not a folder: {}", file.display()));
    }
}
