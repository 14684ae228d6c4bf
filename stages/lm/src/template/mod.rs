//! Renders messages to text as Hugging Face's chat templates do, and encodes the text as tokens.
//!
//! The template's text of new messages is encoded separately, so sampled tokens stay unchanged. A template that
//! rewrites earlier text begins another context ([`TokenizedConversation`]). `strftime_now` returns the date of the
//! options, never the clock's. See `docs/design/0022-templates.md`.

mod builtin;
mod chat_encoder;
mod chat_template;
#[cfg(test)]
mod context_tests;
mod continuation;
#[cfg(test)]
mod continuation_tests;
mod conversation;
mod conversation_tokens;
mod environment;
mod extent;
mod external_text;
mod json;
mod limits;
#[cfg(test)]
mod limits_tests;
mod message;
mod native;
mod options;
mod pieces;
mod probe;
mod prompt;
mod reasoning;
mod source_guard;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
mod value_guard;

pub use builtin::BuiltinTemplate;
pub use chat_encoder::ChatEncoder;
pub use chat_template::ChatTemplate;
pub use continuation::TurnContinuation;
pub use conversation::TokenizedConversation;
pub use conversation_tokens::ConversationTokens;
pub use message::CallStyle;
pub use native::native_format;
pub use options::{Date, RenderOptions, TemplateOptions, ToolDescriptions};
pub use pieces::check as check_pieces;
