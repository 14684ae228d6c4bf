//! Saves and loads resume points of training loops: files and a state, written into a scratch folder, stored together,
//! and read back by the next attempt.
//!
//! A checkpoint is taken only between steps and holds all state that the remaining steps read. Floats pass through JSON
//! unchanged, so a stage that was killed and resumed produces the same bytes.

use crate::StageContext;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};
use trainyard_core::error::io_error;
use trainyard_core::{Error, Result};

const STATE: &str = "state.json";

/// Stores the files that `write` puts into an empty folder, together with `state`, as the resume point of `step`.
pub fn save(
    context: &StageContext,
    step: u64,
    state: &impl Serialize,
    write: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let folder = context.scratch.join(format!("checkpoint-{step}"));
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|e| io_error(&folder, &e))?;
    }
    std::fs::create_dir_all(&folder).map_err(|e| io_error(&folder, &e))?;
    write(&folder)?;
    let text =
        serde_json::to_vec(state).map_err(|e| Error::bug(format!("the state cannot be written as JSON: {e}")))?;
    let path = folder.join(STATE);
    std::fs::write(&path, text).map_err(|e| io_error(&path, &e))?;
    context.checkpoints.save(step, &folder)?;
    std::fs::remove_dir_all(&folder).map_err(|e| io_error(&folder, &e))
}

/// Returns the state and the folder of the newest resume point; `None` if there is no resume point.
pub fn latest<T: DeserializeOwned>(context: &StageContext) -> Result<Option<(T, PathBuf)>> {
    let Some((step, folder)) = context.checkpoints.latest()? else { return Ok(None) };
    let path = folder.join(STATE);
    let text = std::fs::read(&path).map_err(|e| io_error(&path, &e))?;
    let state = serde_json::from_slice(&text).map_err(|e| {
        Error::data(format!("the resume point of step {step} cannot be read by this version of the program: {e}"))
            .help("continue with the version that stored it, or discard it with `trainyard runs afresh RUN STAGE`")
    })?;
    context.log(format!("resuming after step {step}"));
    Ok(Some((state, folder)))
}
