//! Checks that a tokenizer and a template give one conversation the same tokens in pieces and as a whole.

use super::chat_encoder::ChatEncoder;
use super::conversation::TokenizedConversation;
use crate::tokenizer::PrefixPlacement;
use trainyard_core::{Error, Result};
use trainyard_tables::Message;

/// Checks that a tokenizer and a template encode pieces like the whole text. Errors (kind invalid): a tokenizer of the
/// SentencePiece kind that encodes pieces differently. Other tokenizers add no tokens to a text and are not checked.
pub fn check(chat: &ChatEncoder) -> Result<()> {
    if chat.tokenizer().prefix_placement() == PrefixPlacement::Nowhere {
        return Ok(());
    }
    let messages = [("user", "one two"), ("assistant", "three four"), ("user", "five"), ("assistant", "six")];
    let messages = messages.map(|(role, content)| Message::new(role, content));
    let encoded = TokenizedConversation::encode(chat, &messages, None)?;
    let whole = chat.tokenizer().encode(&chat.render(&messages, false, None)?)?;
    if encoded.contexts().len() > 1 || whole.starts_with(&encoded.token_ids) {
        return Ok(());
    }
    Err(Error::invalid("the tokenizer encodes a conversation in pieces differently from the whole text")
        .help("the model would see other tokens than it was trained on: use a model with another tokenizer"))
}
