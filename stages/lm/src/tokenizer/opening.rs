//! What tokenizers put before a text.

/// Where a tokenizer adds something to a text that it encodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// Nowhere: pieces need no care.
    Nowhere,
    /// At the beginning of a text.
    Text,
    /// At the beginning of a text and after every added token.
    Stretch,
}
