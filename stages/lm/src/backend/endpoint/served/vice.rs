//! What can be wrong with a server.

use serde_json::Value;
use std::time::Duration;

/// One way to fail a request.
pub enum Vice {
    /// Another status, with headers and a body.
    Status(u16, Vec<(&'static str, &'static str)>, String),
    /// The connection is closed without an answer.
    Close,
    /// Half of the answer, then the connection is closed.
    Cut,
    /// Half of the answer as if it were all.
    Half,
    /// The answer, byte by byte with a pause before each hundred.
    Drip(Duration),
    /// Silence before the answer.
    Late(Duration),
    /// Text as JSON.
    Text(String),
    /// An answer that was changed.
    Edit(Box<dyn Fn(&mut Value) + Send>),
}
