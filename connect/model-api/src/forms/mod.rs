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

pub use responses_read::Past;
pub use stream::{Event, Stamp, Stream};

use crate::answered::Answered;
use crate::asked::{Asked, Form};
use crate::refusal::Refusal;
use serde_json::Value;

/// Reads the body of a request. `past` finds conversations that [`Form::Responses`] continues.
///
/// Errors: an invalid field, by its path.
pub fn read(form: Form, body: &Value, past: &Past<'_>) -> Result<Asked, Refusal> {
    match form {
        Form::Chat => chat_read::read(body),
        Form::Completions => completions::read(body),
        Form::Responses => responses_read::read(body, past),
        Form::Messages => messages_read::read(body, false),
    }
}

/// Reads a request of Anthropic's that only counts tokens. Errors: as [`read`].
pub fn read_count(body: &Value) -> Result<Asked, Refusal> {
    messages_read::read(body, true)
}

/// Writes the whole response.
pub fn write(asked: &Asked, answered: &Answered, stamp: &Stamp) -> Value {
    match asked.form {
        Form::Chat => chat_write::write(asked, answered, stamp),
        Form::Completions => completions::write(asked, answered, stamp),
        Form::Responses => responses_write::write(asked, answered, stamp),
        Form::Messages => messages_write::write(asked, answered, stamp),
    }
}

/// Creates the writer of a response as events.
pub fn stream(asked: &Asked, stamp: &Stamp) -> Box<dyn Stream> {
    match asked.form {
        Form::Chat => Box::new(chat_write::Chunks::new(asked, stamp)),
        Form::Completions => Box::new(completions::Chunks::new(asked, stamp)),
        Form::Responses => Box::new(responses_write::Events::new(asked, stamp)),
        Form::Messages => Box::new(messages_write::Events::new(asked, stamp)),
    }
}
