//! Represents a running user program, and its capabilities.

use crate::tools::ToolSpec;
use serde::Deserialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trainyard_core::attempt::LogLevel;
use trainyard_core::{Error, Result};
use trainyard_process::{ProgramException, ProgramLog, ProgramService};

/// Maximum number of exceptions whose tracebacks are logged.
const TRACEBACKS: u64 = 20;

/// Capabilities of a program, from its `ready` message.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
pub struct ProgramCapabilities {
    pub tools: Vec<ToolSpec>,
    /// Whether the program copies sessions itself.
    pub forks: bool,
    /// Whether the program replies to turns without calls.
    pub steps: bool,
    /// Whether the program judges answers itself.
    pub verifies: bool,
    /// Whether the program writes the opening messages of a problem.
    pub prompts: bool,
}

/// Program with its processes, or a service.
pub struct CustomProgram {
    /// Processes of the program, or its service.
    pub peer: Arc<dyn ProgramService>,
    /// Capabilities.
    pub capabilities: ProgramCapabilities,
    log: ProgramLog,
    sessions: AtomicU64,
    raised: AtomicU64,
}

impl CustomProgram {
    /// Waits for the program's `ready` message and returns the program with its capabilities.
    ///
    /// Errors: those of the program's start; data, if the capabilities cannot be used.
    pub fn from_service(peer: Arc<dyn ProgramService>, log: ProgramLog) -> Result<Arc<Self>> {
        let ready = peer.ready().answer()?.value;
        let invalid =
            |problem: String| Error::data(problem).at(peer.place()).help("fix the `ready` message of the program");
        let capabilities: ProgramCapabilities =
            serde_json::from_value(ready).map_err(|e| invalid(format!("invalid `ready` message: {e}")))?;
        for tool in &capabilities.tools {
            if tool.name.is_empty() || !tool.parameters.is_object() {
                return Err(invalid(format!("tool `{}` needs a name and a JSON Schema of its parameters", tool.name)));
            }
        }
        let (sessions, raised) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Arc::new(Self { peer, capabilities, log, sessions, raised }))
    }
    /// Returns an unused session number.
    pub(super) fn next_session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }
    /// Writes an exception of an operation into the log, with its traceback. Omits those after the first exceptions.
    pub(super) fn log_exception(&self, operation: &str, exception: &ProgramException) {
        let trace = exception.traceback.trim_end();
        let text = if trace.is_empty() { exception.to_string() } else { trace.to_string() };
        match self.raised.fetch_add(1, Ordering::Relaxed) {
            count if count < TRACEBACKS => self.warn(&format!("{operation}:\n{text}")),
            TRACEBACKS => self.warn("further exceptions are not shown"),
            _ => {}
        }
    }
    /// Writes a warning into the log.
    pub(super) fn warn(&self, text: &str) {
        (self.log)(LogLevel::Warn, &format!("{}: {text}", self.peer.place()));
    }
}
