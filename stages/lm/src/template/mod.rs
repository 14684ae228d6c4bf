//! Chat templates: messages to text as Hugging Face renders them, and text to tokens piece by piece.
//!
//! Why so: a rollout's tokens are only ever appended, so what a template adds for each message is encoded on its own; the prefix
//! property that this needs is verified at every message, and a template that violates it is refused with the place. Refuses:
//! rendering that reads the wall clock (`strftime_now` takes an injected time), unknown roles.

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
