//! Answers as they are made: events for pieces.

use crate::answered::{Answered, Piece};
use crate::refusal::Refusal;
use serde_json::Value;

/// Who an answer is, in its form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamp {
    /// Unique on this server: the form's prefix and letters of chance.
    pub id: String,
    /// Seconds since 1970-01-01 UTC.
    pub created: i64,
}

/// A server-sent event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its name, in forms that name events.
    pub name: Option<&'static str>,
    /// Its data; none for the text `[DONE]`, which ends the streams of OpenAI's older forms.
    pub data: Option<Value>,
}

impl Event {
    /// An event without a name.
    pub fn plain(data: Value) -> Self {
        Self { name: None, data: Some(data) }
    }
    /// An event whose name is the `type` of its data.
    pub fn named(name: &'static str, mut data: Value) -> Self {
        data["type"] = Value::from(name);
        Self { name: Some(name), data: Some(data) }
    }
    /// As it goes over the wire.
    pub fn text(&self) -> String {
        let data = self.data.as_ref().map_or("[DONE]".to_string(), Value::to_string);
        match self.name {
            Some(name) => format!("event: {name}\ndata: {data}\n\n"),
            None => format!("data: {data}\n\n"),
        }
    }
}

/// Writes the events of one answer.
pub trait Stream: Send {
    /// Before the first piece.
    fn begin(&mut self) -> Vec<Event>;
    /// A piece of one of the answers.
    fn piece(&mut self, piece: &Piece) -> Vec<Event>;
    /// All of it was told in pieces; this ends the stream.
    fn end(&mut self, answered: &Answered) -> Vec<Event>;
    /// It came to nothing in the middle.
    fn fail(&mut self, refusal: &Refusal) -> Vec<Event>;
}
