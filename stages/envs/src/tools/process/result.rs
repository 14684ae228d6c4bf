//! Converts a program's replies to the results that the model sees.

use super::session::{OperationReply, PendingReply};
use crate::tools::ToolResult;
use crate::tools::pending_result::PendingResultSource;
use serde_json::Value;
use std::time::Duration;

/// Source of the result of a call.
pub struct CallResultSource {
    pub pending: PendingReply,
    /// Maximum size of a result in bytes.
    pub max_bytes: u64,
}

impl PendingResultSource for CallResultSource {
    fn poll(&self) -> Option<ToolResult> {
        self.wait(Duration::ZERO)
    }
    fn wait(&self, wait: Duration) -> Option<ToolResult> {
        self.pending.reply(wait).map(|reply| result(&reply, self.max_bytes))
    }
}

/// Converts a reply to a tool result. A value must be a text, or a map with a `text` and optionally `error: true`; the
/// environment reads its other fields.
pub fn result(reply: &OperationReply, max_bytes: u64) -> ToolResult {
    let found = match reply {
        OperationReply::Value(Value::String(text)) => ToolResult::ok(text.as_str()),
        OperationReply::Value(Value::Object(map)) if map.get("text").is_some_and(Value::is_string) => ToolResult {
            text: map["text"].as_str().unwrap_or_default().to_string(),
            error: map.get("error").and_then(Value::as_bool).unwrap_or(false),
            ..ToolResult::default()
        },
        OperationReply::Value(other) => {
            return ToolResult::infrastructure(format!("error: the program answered a call with {other}"));
        }
        OperationReply::Raised(exception) => ToolResult::error(exception.to_string()),
        OperationReply::StartRaised(exception) => return ToolResult::infrastructure(format!("error: {exception}")),
        OperationReply::Failed { error, late: true } => {
            return ToolResult::timed_out(format!("TimeoutError: {}", error.message));
        }
        OperationReply::Failed { error, late: false } => {
            return ToolResult::infrastructure(format!("error: {}", error.message));
        }
    };
    let bytes = found.text.len() as u64;
    if bytes <= max_bytes {
        return found;
    }
    ToolResult::error(format!("error: the result has {bytes} bytes, but at most {max_bytes} may be returned"))
}
