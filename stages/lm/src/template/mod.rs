//! Chat templates: messages to text as Hugging Face renders them, and text to tokens piece by piece.
//!
//! A rollout's tokens are only ever appended, so what a template adds for each message is encoded on its own. This
//! needs the rendering of fewer messages to be a prefix of the rendering of more; that is verified at every message.
//! `strftime_now` takes an injected time.

mod builtin;
mod chat;
mod conversation;
mod environment;
mod json;
#[cfg(test)]
mod tests;

pub use builtin::Builtin;
pub use chat::{Chat, ChatTemplate, RenderOptions};
pub use conversation::{Conversation, Encoded};
