//! Implements the format of an environment without tools, in which every turn is plain text. No option names the
//! format.

use crate::formats::{AgentTurn, ToolFormat};
use crate::tools::{ToolCall, ToolSpec};

/// Format that finds no calls in any turn.
pub(crate) struct PlainTextFormat;

impl ToolFormat for PlainTextFormat {
    fn kind(&self) -> &'static str {
        "text"
    }
    fn parse(&self, text: &str) -> AgentTurn {
        AgentTurn { text: text.to_string(), ..AgentTurn::default() }
    }
    fn render(&self, _: &ToolCall) -> String {
        String::new()
    }
    fn describe(&self, _: &[ToolSpec]) -> String {
        String::new()
    }
}
