//! Defines the trait of tool-call formats.

use crate::formats::AgentTurn;
use crate::tools::{ToolCall, ToolSpec};
use trainyard_tables::CallSyntax;

/// Reads and writes tool calls inside an assistant turn. `parse(render(call))` returns the call.
pub trait ToolFormat: Send + Sync {
    /// Returns the registered `kind`.
    fn kind(&self) -> &'static str;
    /// Parses one turn, without its end token. An unreadable call becomes an error at its position in the list, which
    /// the agent sees.
    fn parse(&self, text: &str) -> AgentTurn;
    /// Renders one call as the agent would write it.
    fn render(&self, call: &ToolCall) -> String;
    /// Returns the text about tools and format for a system message.
    fn describe(&self, tools: &[ToolSpec]) -> String;
    /// Returns the text around names and arguments, for calls that consist of JSON; `None` for other calls, which a
    /// sampler cannot force.
    fn call_syntax(&self) -> Option<CallSyntax> {
        None
    }
}
