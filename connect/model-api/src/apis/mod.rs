//! Converts between the JSON of each API and plain data.

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

/// Reads the body of a request. `past` looks up the conversations that requests of [`ApiKind::Responses`] continue.
///
/// Errors: an invalid or unsupported field, with its path.
pub fn read(api: ApiKind, body: &Value, past: &ConversationLookup<'_>) -> Result<ModelRequest, ModelApiError> {
    match api {
        ApiKind::Chat => chat_read::read(body),
        ApiKind::Completions => completions::read(body),
        ApiKind::Responses => responses_read::read(body, past),
        ApiKind::Messages => messages_read::read(body, false),
    }
}

/// Reads a request of Anthropic's API that counts tokens. Errors: as [`read`].
pub fn read_count(body: &Value) -> Result<ModelRequest, ModelApiError> {
    messages_read::read(body, true)
}

/// Writes the complete response in the API of its request.
pub fn write(request: &ModelRequest, response: &ModelResponse, identity: &ResponseIdentity) -> Value {
    match request.api {
        ApiKind::Chat => chat_write::write(request, response, identity),
        ApiKind::Completions => completions::write(request, response, identity),
        ApiKind::Responses => responses_write::write(request, response, identity),
        ApiKind::Messages => messages_write::write(request, response, identity),
    }
}

/// Creates the writer of a streamed response in the API of its request.
pub fn stream(request: &ModelRequest, identity: &ResponseIdentity) -> Box<dyn StreamWriter> {
    match request.api {
        ApiKind::Chat => Box::new(chat_write::ChatStreamWriter::new(request, identity)),
        ApiKind::Completions => Box::new(completions::CompletionsStreamWriter::new(request, identity)),
        ApiKind::Responses => Box::new(responses_write::ResponsesStreamWriter::new(request, identity)),
        ApiKind::Messages => Box::new(messages_write::MessagesStreamWriter::new(request, identity)),
    }
}
