//! Counts the tokens of conversations by a model's tokenizer and chat template, for the filter rule `tokens`.

use std::path::Path;
use trainyard_core::Result;
use trainyard_data::filter::TokenCounter;
use trainyard_lm::ModelFolder;
use trainyard_lm::template::{ChatEncoder, TokenizedConversation};
use trainyard_tables::Trajectory;

struct ChatTokens(ChatEncoder);

impl TokenCounter for ChatTokens {
    fn count(&self, row: &Trajectory) -> Result<usize> {
        Ok(TokenizedConversation::encode_row(&self.0, row)?.longest())
    }
}

/// Reads tokenizer and template of a model's folder. Errors: those of [`ModelFolder::load_chat`].
pub fn open(folder: &Path) -> Result<Box<dyn TokenCounter>> {
    Ok(Box::new(ChatTokens(ModelFolder::load_chat(folder)?)))
}
