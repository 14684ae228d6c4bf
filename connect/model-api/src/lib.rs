//! Serves language models and similar services over OpenAI's chat completions, completions and responses, and over
//! Anthropic's messages.
//!
//! ```text
//! body ─apis::read─▶ ModelRequest ─ModelHandler─▶ ChoiceDelta, ModelResponse ─apis::write─▶ body, events
//! ```
//!
//! An API is a pure translation between JSON and plain data. A [`ModelHandler`] creates the responses, from a model or
//! from an episode that waits for its policy. This crate depends on neither models nor environments, so both can
//! implement the handler.
pub mod apis;
pub mod error;
mod form;
pub mod handler;
pub mod request;
pub mod response;
pub mod server;
pub mod turn_parser;

pub use error::ModelApiError;
pub use handler::{Caller, ModelCard, ModelHandler, PendingRequest, ResponseSender};
pub use request::{ApiKind, ApiTool, ApiToolChoice, ModelPrompt, ModelRequest, OutputForm};
pub use response::{
    ApiFinishReason, ApiToolCall, ChoiceDelta, ModelResponse, ResponseChoice, SampledToken, TopLogprob, Usage,
};
pub use server::{ModelApiServer, ModelApiSettings};
pub use trainyard_http_server::random_token;
