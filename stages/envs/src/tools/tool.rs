//! Defines the traits of tools: a kind of tool has a description for the model and opens sessions, which run calls.
//!
//! A session keeps the state and can be copied, because an interpreter keeps variables and a rollout may be forked at
//! any token.

use crate::tools::{PendingToolResult, ToolCall, ToolHost, ToolLimits, ToolResult, ToolSpec};
use serde_json::Value;
use std::sync::Arc;
use trainyard_core::{Error, Result};

/// Kind of tool, with its options.
pub trait AgentTool: Send + Sync {
    /// Returns the name in the registry and in calls.
    fn name(&self) -> &'static str;
    /// Returns the tool descriptions that are known without starting a program. Most tools have exactly one.
    fn specs(&self) -> Vec<ToolSpec>;
    /// Returns the descriptions for the model. Starts the user program or server that supplies them, if there is one.
    fn offered(&self, _host: &Arc<ToolHost>) -> Result<Vec<ToolSpec>> {
        Ok(self.specs())
    }
    /// Opens a fresh session. Tools that run programs use a worker of `host`; others ignore it.
    fn open(&self, host: &Arc<ToolHost>, limits: &ToolLimits) -> Result<Box<dyn ToolSession>>;
}

/// State of a tool in one episode. Dropping the session closes it.
pub trait ToolSession: Send {
    /// Submits a call. Calls of one session run in order. Arguments that do not fit the tool give a result that is
    /// available immediately, with an error for the agent.
    fn submit(&mut self, arguments: &Value) -> PendingToolResult;
    /// Submits a call of one of several tools that share this session.
    fn submit_call(&mut self, call: &ToolCall) -> PendingToolResult {
        self.submit(&call.arguments)
    }
    /// Returns the error that stops the stage, because it would occur in every episode: the program's tools have
    /// changed, or a service rejects requests. Called once a result has arrived.
    fn failure(&mut self) -> Option<Error> {
        None
    }
    /// Returns a new session with the state after the last *completed* call.
    fn fork(&self) -> Result<Box<dyn ToolSession>>;
}

/// Returns the string argument `name` of a tool. The error is the result that the agent sees.
pub(crate) fn text_argument<'a>(tool: &str, name: &str, arguments: &'a Value) -> Result<&'a str, ToolResult> {
    match arguments.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(ToolResult::error(format!("error: argument `{name}` of tool `{tool}` must be a string"))),
        None => Err(ToolResult::error(format!("error: tool `{tool}` needs the argument `{name}`"))),
    }
}
