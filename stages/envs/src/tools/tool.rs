//! The traits of tools: a description for the model, and sessions that take calls.
//!
//! State lives in a session that can be copied, because an interpreter keeps variables and a rollout may be forked at
//! any token.

use crate::tools::{Ticket, ToolHost, ToolLimits};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use trainyard_core::Result;

/// A tool as described to the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name in calls.
    pub name: String,
    /// What the tool does, in a sentence or two.
    pub description: String,
    /// JSON Schema of the arguments, an object. The first entry of `required` is the argument that raw code fills.
    pub parameters: Value,
}

impl ToolSpec {
    /// The argument that a single raw text fills (`code`, `expression`).
    pub fn main_argument(&self) -> Option<&str> {
        self.parameters.get("required")?.get(0)?.as_str()
    }
}

/// One call as the agent wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The tool's name.
    pub name: String,
    /// A JSON object.
    pub arguments: Value,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ToolResult {
    /// Printed output, the value of the last expression and the exception's last line, separated by `\n`.
    pub text: String,
    /// Whether the call failed, by the program's fault or ours.
    pub error: bool,
    /// Whether the call was lost for a reason it did not cause: its workers were killed, or none could start.
    pub infrastructure: bool,
    /// Whether the call hit its wall-clock limit. Such a result is not repeatable and must not enter an update.
    pub timed_out: bool,
}

/// How the result of a call to an unknown tool begins. Stored episodes are recognized by it.
const UNKNOWN_TOOL: &str = "error: no tool `";

impl ToolResult {
    /// The result of a call to an unknown tool; `known` are the tools that the agent has.
    pub fn unknown_tool(name: &str, known: &[&str]) -> Self {
        let hint = if known.is_empty() { String::new() } else { format!("; use one of: {}", known.join(", ")) };
        Self::error(format!("{UNKNOWN_TOOL}{name}`{hint}"))
    }
    /// Whether a result is one of [`ToolResult::unknown_tool`].
    pub fn names_unknown_tool(text: &str) -> bool {
        text.starts_with(UNKNOWN_TOOL)
    }
    /// A successful result.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
    /// A failed call.
    pub fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), error: true, ..Self::default() }
    }
    /// A call that hit its wall-clock limit.
    pub fn timed_out(text: impl Into<String>) -> Self {
        Self { text: text.into(), error: true, timed_out: true, ..Self::default() }
    }
    /// A call lost for a reason it did not cause.
    pub fn infrastructure(text: impl Into<String>) -> Self {
        Self { text: text.into(), error: true, infrastructure: true, ..Self::default() }
    }
}

/// One tool kind.
pub trait Tool: Send + Sync {
    /// The name in the registry and in calls.
    fn name(&self) -> &'static str;
    /// The description for the model.
    fn spec(&self) -> ToolSpec;
    /// Opens a fresh session. Tools that run programs use a worker of `host`; others ignore it.
    fn open(&self, host: &Arc<ToolHost>, limits: &ToolLimits) -> Result<Box<dyn ToolSession>>;
}

/// The state of a tool in one episode. Dropping it closes it.
pub trait ToolSession: Send {
    /// Submits a call. Calls of one session run in order. `arguments` that do not fit the tool give a ready ticket with
    /// an error for the agent.
    fn submit(&mut self, arguments: &Value) -> Ticket;
    /// A new session with the state after the last *completed* call.
    fn fork(&self) -> Result<Box<dyn ToolSession>>;
}

/// Reads the one string argument of a tool.
pub(crate) fn text_argument<'a>(tool: &str, name: &str, arguments: &'a Value) -> Result<&'a str, ToolResult> {
    match arguments.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(ToolResult::error(format!("error: argument `{name}` of tool `{tool}` must be a string"))),
        None => Err(ToolResult::error(format!("error: tool `{tool}` needs the argument `{name}`"))),
    }
}
