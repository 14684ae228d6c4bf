//! Represents a running user program, and its capabilities.

use crate::tools::ToolSpec;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use trainyard_core::attempt::LogLevel;
use trainyard_core::{Error, Result};
use trainyard_process::{ProgramException, ProgramLog, ProgramService};

/// Maximum number of exceptions outside calls whose tracebacks are logged.
const TRACEBACKS: u64 = 20;
/// Maximum number of exceptions of calls whose tracebacks are logged.
const CALL_TRACEBACKS: u64 = 1_000;
/// Types of exceptions by which tools tell the model that its arguments are wrong; empty for tools without types.
const EXPECTED: [&str; 2] = ["ValueError", ""];
/// Maximum number of characters of an exception in a summary.
const FIRST: usize = 160;

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
    calls: Mutex<CallExceptions>,
}

/// Exceptions of calls.
#[derive(Debug, Default)]
struct CallExceptions {
    total: u64,
    /// Number of exceptions and the first message, by tool and type.
    by_tool: BTreeMap<(String, String), (u64, String)>,
}

impl CallExceptions {
    /// Counts an exception; returns whether it is the first one of this tool and type.
    fn add(&mut self, tool: &str, exception: &ProgramException) -> bool {
        self.total += 1;
        let key = (tool.to_string(), exception.kind.clone());
        let entry = self.by_tool.entry(key).or_insert_with(|| (0, first_line(&exception.message)));
        entry.0 += 1;
        entry.0 == 1
    }
    /// Returns one line for each tool and type: `tool book: 60 calls raised ValueError, first: no room x`.
    fn lines(&self) -> Vec<String> {
        let line = |((tool, kind), (count, first)): (&(String, String), &(u64, String))| {
            let calls = if *count == 1 { "call" } else { "calls" };
            let raised = if kind.is_empty() { "failed".to_string() } else { format!("raised {kind}") };
            let first = if first.is_empty() { String::new() } else { format!(", first: {first}") };
            format!("tool {tool}: {count} {calls} {raised}{first}")
        };
        self.by_tool.iter().map(line).collect()
    }
}

fn first_line(message: &str) -> String {
    let line = message.trim().lines().next().unwrap_or_default();
    if line.chars().count() <= FIRST { line.to_string() } else { line.chars().take(FIRST - 1).chain(['…']).collect() }
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
        let (sessions, raised, calls) = (AtomicU64::new(0), AtomicU64::new(0), Mutex::default());
        Ok(Arc::new(Self { peer, capabilities, log, sessions, raised, calls }))
    }
    /// Returns an unused session number.
    pub(super) fn next_session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::Relaxed)
    }
    /// Writes an exception of an operation into the log, with its traceback. Omits those after the first exceptions.
    pub(super) fn log_exception(&self, operation: &str, exception: &ProgramException) {
        let text = trace(exception);
        match self.raised.fetch_add(1, Ordering::Relaxed) {
            count if count < TRACEBACKS => self.warn(&format!("{operation}:\n{text}")),
            TRACEBACKS => self.warn("further exceptions are not shown"),
            _ => {}
        }
    }
    /// Writes the exception of a call into the log, with its traceback. The model sees it, so only the first one of an
    /// unexpected type is a warning; [`CustomProgram::report`] gives the number of all.
    pub(super) fn log_call(&self, tool: &str, exception: &ProgramException) {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = calls.add(tool, exception);
        let total = calls.total;
        drop(calls);
        let is_unexpected = is_first && !EXPECTED.contains(&exception.kind.as_str());
        let level = if is_unexpected { LogLevel::Warn } else { LogLevel::Info };
        if is_unexpected || total <= CALL_TRACEBACKS {
            (self.log)(level, &format!("{}: a call of `{tool}`:\n{}", self.peer.place(), trace(exception)));
        }
    }
    /// Writes the numbers of exceptions of calls into the log, as warnings, and counts from zero again.
    pub fn report(&self) {
        let calls = std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner));
        calls.lines().iter().for_each(|line| (self.log)(LogLevel::Warn, line));
    }
    /// Writes a warning into the log.
    pub(super) fn warn(&self, text: &str) {
        (self.log)(LogLevel::Warn, &format!("{}: {text}", self.peer.place()));
    }
}

/// Returns the traceback of an exception, or its type and message without one.
fn trace(exception: &ProgramException) -> String {
    let trace = exception.traceback.trim_end();
    if trace.is_empty() { exception.to_string() } else { trace.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_of_calls_are_counted_by_tool_and_type() {
        let raised = |kind: &str, message: &str| ProgramException {
            kind: kind.into(),
            message: message.into(),
            traceback: "Traceback …".into(),
        };
        let mut calls = CallExceptions::default();
        assert!(calls.add("book", &raised("ValueError", "no room x\nof many")));
        assert!(!calls.add("book", &raised("ValueError", "no room y")));
        assert!(calls.add("book", &raised("KeyError", "'x'")) && calls.add("look", &raised("", "")));
        assert_eq!(
            calls.lines(),
            [
                "tool book: 1 call raised KeyError, first: 'x'",
                "tool book: 2 calls raised ValueError, first: no room x",
                "tool look: 1 call failed",
            ]
        );
        assert_eq!(calls.total, 4);
        assert_eq!(first_line(&"x".repeat(200)).chars().count(), FIRST);
    }
}
