//! Client for language models at endpoints of OpenAI's chat completions, for stages that require a model's text.
//!
//! A stage opens its [`Models`] once; a part that uses a model opens a [`ChatClient`] there by its [`ChatOptions`].
//! Every response is stored as soon as it arrives, by the content of its request, so a crash loses none and an equal
//! request is not paid again (`docs/design/0033-endpoints.md`).
mod budget;
mod client;
mod models;
mod options;
mod rate_limiter;
mod record;
mod request;
mod response;
mod shared_client;
mod table;
#[cfg(test)]
mod tests;
mod usage;

pub use client::{ChatClient, ChatRequestId};
pub use models::Models;
pub use options::{ChatOptions, Price, Structure};
pub use request::{ChatRequest, ChatRequestMessage, ResponseSchema};
pub use response::{ChatFinishReason, ChatResponse, ChatToolCall};
pub use shared_client::{ChatResult, Promise, SharedChatClient};
pub use usage::{ChatUsage, metrics};
