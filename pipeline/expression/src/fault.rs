//! Defines the mistakes inside an expression, with their positions.

use std::ops::Range;

/// A mistake inside an expression: its bytes, a message and a help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpressionError {
    /// Byte range in the expression's text.
    pub range: Range<usize>,
    pub message: String,
    /// How to fix it.
    pub help: Option<String>,
    /// Kind of the mistake, for callers that write different messages.
    pub cause: ExpressionErrorKind,
}

/// Kind of a mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpressionErrorKind {
    /// The text at this position violates the grammar.
    Misplaced,
    /// Too many levels.
    TooDeep,
    /// An unknown name, an incorrect type, a value out of range, ….
    Other,
}

impl ExpressionError {
    /// Creates a fault without help.
    pub fn new(range: &Range<usize>, message: impl Into<String>) -> Self {
        Self { range: range.clone(), message: message.into(), help: None, cause: ExpressionErrorKind::Other }
    }
    /// Creates the fault of a text that breaks the grammar.
    pub fn misplaced(range: &Range<usize>, message: impl Into<String>) -> Self {
        Self { cause: ExpressionErrorKind::Misplaced, ..Self::new(range, message) }
    }
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}
