//! Finds the executable of the tool worker.

use std::path::PathBuf;
use trainyard_core::{Error, Result};

/// Environment variable with the worker's path. Without it, this executable is started with the argument `tool-worker`.
pub const WORKER_VARIABLE: &str = "TRAINYARD_TOOL_WORKER";

/// The executable that serves as worker.
#[derive(Debug, Clone)]
pub struct WorkerProgram(pub PathBuf);

impl WorkerProgram {
    /// Returns the executable that the environment variable names, or else this one.
    pub fn find() -> Result<Self> {
        if let Some(path) = std::env::var_os(WORKER_VARIABLE) {
            return Ok(Self(PathBuf::from(path)));
        }
        let executable = std::env::current_exe()
            .map_err(|e| Error::invalid(format!("cannot find the executable of this program for tool workers: {e}")))?;
        // This path names the running program even after its file was replaced.
        Ok(Self(if executable.exists() { executable } else { PathBuf::from("/proc/self/exe") }))
    }
}
