//! Describes where a tokenizer adds a prefix to a text.

/// Positions at which a tokenizer adds a prefix to the text that it encodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrefixPlacement {
    /// Nowhere: pieces need no special handling.
    Nowhere,
    /// At the beginning of a text.
    Text,
    /// At the beginning of a text and after every added token.
    Segment,
}
