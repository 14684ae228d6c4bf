//! Defines the events of streamed responses, and the interface of their writers.

use crate::error::ModelApiError;
use crate::response::{ChoiceDelta, ModelResponse};
use serde_json::Value;

/// Identity of a response, in its API.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResponseIdentity {
    /// Id, unique on this server: the prefix of the API and random letters.
    pub id: String,
    /// Seconds since 1970-01-01 UTC.
    pub created: i64,
}

/// A server-sent event.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerSentEvent {
    /// Name of the event; `None` in APIs without names.
    pub name: Option<&'static str>,
    /// Data; `None` for the text `[DONE]`, which ends the streams of OpenAI's older APIs.
    pub data: Option<Value>,
}

impl ServerSentEvent {
    /// Creates an event without a name.
    pub fn plain(data: Value) -> Self {
        Self { name: None, data: Some(data) }
    }
    /// Creates an event whose name is the `type` of its data.
    pub fn named(name: &'static str, mut data: Value) -> Self {
        data["type"] = Value::from(name);
        Self { name: Some(name), data: Some(data) }
    }
    /// Returns the event as text for the wire.
    pub fn text(&self) -> String {
        let data = self.data.as_ref().map_or("[DONE]".to_string(), Value::to_string);
        match self.name {
            Some(name) => format!("event: {name}\ndata: {data}\n\n"),
            None => format!("data: {data}\n\n"),
        }
    }
}

/// Writes the events of one response.
pub trait StreamWriter: Send {
    /// Returns the events before the first delta.
    fn begin(&mut self) -> Vec<ServerSentEvent>;
    /// Returns the events of a delta.
    fn write_delta(&mut self, piece: &ChoiceDelta) -> Vec<ServerSentEvent>;
    /// Returns the events that end the stream after all deltas.
    fn end(&mut self, response: &ModelResponse) -> Vec<ServerSentEvent>;
    /// Returns the events of a failure within the stream.
    fn fail(&mut self, refusal: &ModelApiError) -> Vec<ServerSentEvent>;
}
