//! Defines the faults of a server.

use serde_json::Value;
use std::time::Duration;

/// A fault of one request.
pub enum MockServerFault {
    /// Another status, with headers and a body.
    Status(u16, Vec<(&'static str, &'static str)>, String),
    /// The connection is closed without a response.
    Close,
    /// Half of the response, then the connection is closed.
    Cut,
    /// Half of the response, presented as complete.
    Half,
    /// The response, byte by byte with a pause before each hundred.
    Drip(Duration),
    /// A delay before the response.
    Late(Duration),
    /// Text in place of JSON.
    Text(String),
    /// A modified response.
    Edit(Box<dyn Fn(&mut Value) + Send>),
}
