//! What is wrong inside an expression, and where.

use std::ops::Range;

/// A mistake inside an expression: bytes in its text, what, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Bytes in the expression's text.
    pub range: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Fault {
    /// A fault without a help.
    pub fn new(range: &Range<usize>, message: impl Into<String>) -> Self {
        Self { range: range.clone(), message: message.into(), help: None }
    }
    /// Says what to do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}
