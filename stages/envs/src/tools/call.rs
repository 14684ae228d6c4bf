//! Defines the description, the call and the result of a tool.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// A tool as described to the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name in calls.
    pub name: String,
    /// Effect of the tool, in a sentence or two.
    pub description: String,
    /// JSON Schema of the arguments, an object. The first entry of `required` names the argument that raw code fills.
    pub parameters: Value,
}

impl ToolSpec {
    /// Returns the name of the argument that a single raw text fills (`code`, `expression`); `None` if no argument is
    /// required.
    pub fn main_argument(&self) -> Option<&str> {
        self.parameters.get("required")?.get(0)?.as_str()
    }
    /// Returns the tool in OpenAI's form: `{"type": "function", "function": {…}}`.
    pub fn schema(&self) -> Value {
        json!({
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": self.parameters},
        })
    }
}

/// One call as the agent wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    pub name: String,
    /// Arguments, a JSON object.
    pub arguments: Value,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ToolResult {
    /// Printed output, the value of the last expression and the exception's last line, separated by `\n`.
    pub text: String,
    /// Whether the call failed, for any reason.
    pub error: bool,
    /// Whether the call was lost for a reason that it did not cause, such as killed workers or workers that could not
    /// start.
    pub infrastructure: bool,
    /// Whether the call hit its wall-clock limit. Such a result is not repeatable and must not enter an update.
    pub timed_out: bool,
}

/// Beginning of the result of a call to an unknown tool. It identifies such calls in stored episodes, so it must not
/// change.
const UNKNOWN_TOOL: &str = "error: no tool `";

impl ToolResult {
    /// Returns the result of a call to an unknown tool; `known` are the tools that the agent has.
    pub fn unknown_tool(name: &str, known: &[&str]) -> Self {
        let hint = if known.is_empty() { String::new() } else { format!("; use one of: {}", known.join(", ")) };
        Self::error(format!("{UNKNOWN_TOOL}{name}`{hint}"))
    }
    /// Returns whether the text of a result is that of [`ToolResult::unknown_tool`].
    pub fn names_unknown_tool(text: &str) -> bool {
        text.starts_with(UNKNOWN_TOOL)
    }
    /// Returns a successful result.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
    /// Returns the result of a failed call.
    pub fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), error: true, ..Self::default() }
    }
    /// Returns the result of a call that hit its wall-clock limit.
    pub fn timed_out(text: impl Into<String>) -> Self {
        Self { text: text.into(), error: true, timed_out: true, ..Self::default() }
    }
    /// Returns the result of a call that was lost for a reason that it did not cause.
    pub fn infrastructure(text: impl Into<String>) -> Self {
        Self { text: text.into(), error: true, infrastructure: true, ..Self::default() }
    }
}
