//! A server for language models and similar services over the APIs of agents: OpenAI's chat completions, completions
//! and responses, and Anthropic's messages.
//!
//! ```text
//! request ─form::read─▶ Asked ─Desk─▶ pieces, Answered ─form::write, Stream─▶ answer, events
//! ```
//!
//! A form is a pure translation between JSON and plain data. A [`Desk`] answers: a model, or an episode that waits for
//! its policy. This crate depends on neither models nor environments, so both can implement it.
pub mod answered;
pub mod asked;
pub mod desk;
pub mod forms;
pub mod refusal;
pub mod server;
pub mod speech;

pub use answered::{Answered, Call, Choice, Finish, Piece, Token, Top, Usage};
pub use asked::{Asked, Form, Prompt, Tool, ToolChoice};
pub use desk::{Caller, Card, Desk, Question, Reply};
pub use refusal::Refusal;
pub use server::{Running, Settings};
