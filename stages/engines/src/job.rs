//! What a trainer is told: one JSON file, whose path is in the variable `TRAINYARD_JOB`.

use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

/// The variable that holds the path of the job.
pub const JOB: &str = "TRAINYARD_JOB";

/// Everything that a trainer may read and must write. All paths are absolute.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Job {
    /// Version of this file; always 1.
    pub job_format: u32,
    /// A Hugging Face folder: the model to start from. Not to be changed.
    pub model: PathBuf,
    /// Input port → a file of JSON Lines with its rows, in the columns of the engine. Ports that are not wired are
    /// absent.
    pub data: BTreeMap<String, PathBuf>,
    /// An empty folder for the trained weights, as `.safetensors`.
    pub output: PathBuf,
    /// The file that events are appended to.
    pub events: PathBuf,
    /// What an earlier attempt reported as its newest checkpoint; null at first.
    pub resume: Option<PathBuf>,
    /// A folder for checkpoints and whatever else the trainer writes; removed after the attempt.
    pub scratch: PathBuf,
    /// Threads that may compute.
    pub cpus: usize,
    /// Seed of everything random.
    pub seed: u64,
    /// Options of the stage that are the trainer's.
    pub options: Value,
}

impl Job {
    /// Writes the file.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_vec_pretty(self).map_err(|e| Error::bug(format!("a job has no JSON form: {e}")))?;
        std::fs::write(path, text).map_err(|e| io_error(path, &e))
    }
}
