//! Defines what the rule `tokens` needs of a model. This crate has no tokenizers, so a program supplies it.

use std::path::Path;
use trainyard_core::Result;
use trainyard_tables::Trajectory;

/// Tokenizer and chat template of a model.
pub trait TokenCounter: Send + Sync {
    /// Returns the number of tokens of a row's conversation; if the template rewrites earlier turns, those of the
    /// longest sequence that a training has.
    ///
    /// Errors: data (a conversation that the tokenizer or the template cannot express).
    fn count(&self, row: &Trajectory) -> Result<usize>;
}

/// Opens the folder of a model. Errors: invalid, data (a model without tokenizer or template).
pub type OpenTokenCounter = fn(&Path) -> Result<Box<dyn TokenCounter>>;
