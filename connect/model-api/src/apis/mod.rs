//! The forms: conversion between each API's JSON and plain data.

mod chat_read;
mod chat_write;
mod common;
mod completions;
mod content;
mod fields;
mod messages_read;
mod messages_write;
mod responses_read;
mod responses_write;
mod stream;
mod tokens;

pub use responses_read::ConversationLookup;
pub use stream::{ResponseIdentity, ServerSentEvent, StreamWriter};

use crate::error::ModelApiError;
use crate::request::{ApiKind, ModelRequest};
use crate::response::ModelResponse;
use serde_json::Value;

/// Reads the body of a request. `past` finds conversations that [`ApiKind::Responses`] continues.
///
/// Errors: an invalid field, by its path.
pub fn read(form: ApiKind, body: &Value, past: &ConversationLookup<'_>) -> Result<ModelRequest, ModelApiError> {
    match form {
        ApiKind::Chat => chat_read::read(body),
        ApiKind::Completions => completions::read(body),
        ApiKind::Responses => responses_read::read(body, past),
        ApiKind::Messages => messages_read::read(body, false),
    }
}

/// Reads a request of Anthropic's that only counts tokens. Errors: as [`read`].
pub fn read_count(body: &Value) -> Result<ModelRequest, ModelApiError> {
    messages_read::read(body, true)
}

/// Writes the whole response.
pub fn write(asked: &ModelRequest, answered: &ModelResponse, stamp: &ResponseIdentity) -> Value {
    match asked.api {
        ApiKind::Chat => chat_write::write(asked, answered, stamp),
        ApiKind::Completions => completions::write(asked, answered, stamp),
        ApiKind::Responses => responses_write::write(asked, answered, stamp),
        ApiKind::Messages => messages_write::write(asked, answered, stamp),
    }
}

/// Creates the writer of a response as events.
pub fn stream(asked: &ModelRequest, stamp: &ResponseIdentity) -> Box<dyn StreamWriter> {
    match asked.api {
        ApiKind::Chat => Box::new(chat_write::ChatStreamWriter::new(asked, stamp)),
        ApiKind::Completions => Box::new(completions::CompletionsStreamWriter::new(asked, stamp)),
        ApiKind::Responses => Box::new(responses_write::ResponsesStreamWriter::new(asked, stamp)),
        ApiKind::Messages => Box::new(messages_write::MessagesStreamWriter::new(asked, stamp)),
    }
}
