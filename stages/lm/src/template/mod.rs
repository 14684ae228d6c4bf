//! Chat templates: messages to text as Hugging Face renders them, and text to tokens piece by piece.
//!
//! A rollout's tokens are only ever appended, so what a template adds for each message is encoded on its own. This
//! needs the rendering of fewer messages to be a prefix of the rendering of more; that is verified at every message.
//! `strftime_now` tells the date of the options, never the clock's.

mod builtin;
mod chat;
mod chat_template;
mod conversation;
mod environment;
mod json;
mod message;
mod options;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;

pub use builtin::Builtin;
pub use chat::Chat;
pub use chat_template::ChatTemplate;
pub use conversation::{Conversation, Encoded};
pub use options::{Date, RenderOptions};
