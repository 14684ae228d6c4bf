//! What a tool is: a description for the model, and sessions that take calls.
//!
//! Why sessions: an interpreter keeps variables from call to call, and a rollout may be forked at any token, so state belongs to
//! a session that can be copied. Refuses: results that depend on time; a limit on time marks the result as `timed_out`.

use crate::tools::{Ticket, ToolHost, ToolLimits};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use trainyard_core::Result;

/// A tool as the model is told about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments, an object; the first entry of `required` is what raw code fills in.
    pub parameters: Value,
}

impl ToolSpec {
    /// The argument that one raw text stands for (`code`, `expression`).
    pub fn main_argument(&self) -> Option<&str> {
        self.parameters.get("required")?.get(0)?.as_str()
    }
}

/// One call as the agent wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    pub name: String,
    /// A JSON object.
    pub arguments: Value,
}

/// What the agent sees of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ToolResult {
    /// Output, then the value of a last expression, then the last line of an exception; `\n` between, none at the end.
    pub text: String,
    /// The call failed, by the program's fault or ours.
    pub error: bool,
    /// The call was lost for reasons that it did not cause (a worker that was killed again and again, no worker at all).
    pub infrastructure: bool,
    /// The call ran into its wall-clock limit. Such a result is not repeatable: the episode must not enter an update.
    pub timed_out: bool,
}

/// How the result of a call begins whose tool is not there. Recorded episodes are read by it.
const UNKNOWN_TOOL: &str = "error: no tool `";

impl ToolResult {
    /// Of a call whose tool is not there; `known` are those that are, as far as the agent is told.
    pub fn unknown_tool(name: &str, known: &[&str]) -> Self {
        let hint = if known.is_empty() { String::new() } else { format!("; use one of: {}", known.join(", ")) };
        Self::error(format!("{UNKNOWN_TOOL}{name}`{hint}"))
    }
    /// Whether the text of a result is that of [`ToolResult::unknown_tool`].
    pub fn names_unknown_tool(text: &str) -> bool {
        text.starts_with(UNKNOWN_TOOL)
    }
    pub fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
    pub fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), error: true, ..Self::default() }
    }
    pub fn timed_out(text: impl Into<String>) -> Self {
        Self { text: text.into(), error: true, timed_out: true, ..Self::default() }
    }
    pub fn infrastructure(text: impl Into<String>) -> Self {
        Self { text: text.into(), error: true, infrastructure: true, ..Self::default() }
    }
}

/// One tool kind.
pub trait Tool: Send + Sync {
    /// The name in the registry and in calls.
    fn name(&self) -> &'static str;
    fn spec(&self) -> ToolSpec;
    /// A fresh session. Tools that run programs take a place in `host`; others ignore it.
    fn open(&self, host: &Arc<ToolHost>, limits: &ToolLimits) -> Result<Box<dyn ToolSession>>;
}

/// The state of a tool for one episode. Dropping it closes it.
pub trait ToolSession: Send {
    /// Hands over a call; calls of one session run in the order of submission. `arguments` that do not fit the tool give a ready
    /// ticket with an error that the agent sees.
    fn submit(&mut self, arguments: &Value) -> Ticket;
    /// A session with the state after the last *completed* call.
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
