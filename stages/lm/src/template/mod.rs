//! Chat templates: messages to text as Hugging Face renders them, and text to tokens.
//!
//! The template's text of new messages is encoded separately, so sampled tokens stay unchanged. A template that
//! rewrites earlier text begins another context ([`Conversation`]). `strftime_now` returns the date of the options,
//! never the clock's.

mod builtin;
mod chat;
mod chat_template;
#[cfg(test)]
mod context_tests;
mod conversation;
mod encoded;
mod environment;
mod foreign;
mod json;
mod kept;
#[cfg(test)]
mod kept_tests;
mod message;
mod native;
mod options;
mod pieces;
mod probe;
mod prompt;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
mod thoughts;

pub use builtin::Builtin;
pub use chat::Chat;
pub use chat_template::ChatTemplate;
pub use conversation::Conversation;
pub use encoded::Encoded;
pub use kept::WentOn;
pub use message::CallStyle;
pub use native::native_format;
pub use options::{Date, RenderOptions, TemplateOptions, ToolDescriptions};
pub use pieces::check as check_pieces;
