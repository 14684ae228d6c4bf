//! Sends chat requests to language models at endpoints of OpenAI's chat completions, for stages that require a model's
//! text.
//!
//! A stage opens its [`Models`] once. Each part that uses a model opens a [`ChatClient`] with these models and its
//! [`ChatOptions`]. Every response is stored under the digest of its request as soon as it arrives, so a crash loses no
//! response and an equal request is not paid for again (`docs/design/0033-endpoints.md`).
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
