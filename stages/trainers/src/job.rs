//! Defines the input of a trainer: one JSON file, whose path is in the variable `TRAINYARD_JOB`.

use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

/// Variable with the path of the job.
pub const JOB_VARIABLE: &str = "TRAINYARD_JOB";

/// Files and settings that a trainer may read and must write. All paths are absolute.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrainerJob {
    /// Version of this file; always 1.
    pub job_format: u32,
    /// A Hugging Face folder: the model to start from. Read-only.
    pub model: PathBuf,
    /// Files of JSON Lines with the rows of each connected input port, in the columns of the engine.
    pub data: BTreeMap<String, PathBuf>,
    /// An empty folder for the trained weights, as `.safetensors`.
    pub output: PathBuf,
    /// File to which events are appended.
    pub events: PathBuf,
    /// Newest checkpoint that an earlier attempt reported; null at first.
    pub resume: Option<PathBuf>,
    /// Folder for checkpoints and other files of the trainer; removed after the attempt.
    pub scratch: PathBuf,
    /// Number of compute threads.
    pub cpus: usize,
    /// Seed of all random draws.
    pub seed: u64,
    /// Options of the stage for the trainer.
    pub options: Value,
}

impl TrainerJob {
    /// Writes the job to a file.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).map_err(|e| Error::bug(format!("a job has no JSON form: {e}")))?;
        std::fs::write(path, text).map_err(|e| io_error(path, &e))
    }
}
