//! Mistakes inside an expression, with their places.

use std::ops::Range;

/// A mistake inside an expression: its bytes, a message and a help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExprError {
    /// Byte range in the expression's text.
    pub range: Range<usize>,
    pub message: String,
    /// How to fix it.
    pub help: Option<String>,
}

impl ExprError {
    /// Creates a fault without help.
    pub fn new(range: &Range<usize>, message: impl Into<String>) -> Self {
        Self { range: range.clone(), message: message.into(), help: None }
    }
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}
