//! Defines the faults of a server.

use serde_json::Value;
use std::time::Duration;

/// A fault of one request.
pub enum MockServerFault {
    /// Responds with another status, with headers and a body.
    Status(u16, Vec<(&'static str, &'static str)>, String),
    /// Closes the connection without a response.
    Close,
    /// Sends half of the response, then closes the connection.
    Cut,
    /// Sends half of the response as if it were complete.
    Half,
    /// Sends the response byte by byte, with a pause before each hundred.
    Drip(Duration),
    /// Delays the response.
    Late(Duration),
    /// Sends text in place of JSON.
    Text(String),
    /// Modifies the response.
    Edit(Box<dyn Fn(&mut Value) + Send>),
}
