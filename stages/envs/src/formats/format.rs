//! What a tool-call format is.

use crate::environments::AgentTurn;
use crate::tools::{ToolCall, ToolSpec};

/// Reads and writes tool calls inside an assistant turn. `parse(render(call))` gives the call back.
pub trait ToolFormat: Send + Sync {
    /// The `kind` it is registered under.
    fn kind(&self) -> &'static str;
    /// Reads one turn, the end token left out. A call that cannot be read is an error in its place: the agent is told.
    fn parse(&self, text: &str) -> AgentTurn;
    /// One call as the agent writes it.
    fn render(&self, call: &ToolCall) -> String;
    /// What a system message says about the tools and this format.
    fn describe(&self, tools: &[ToolSpec]) -> String;
}
