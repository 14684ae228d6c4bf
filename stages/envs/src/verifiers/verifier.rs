//! The trait of verifiers.

use trainyard_core::Result;

/// Compares an answer with the expected one. Implementations are pure.
pub trait Verifier: Send + Sync {
    /// The registered `kind`.
    fn kind(&self) -> &'static str;
    /// One line for lists.
    fn summary(&self) -> &'static str;
    /// Markdown: which answers are equal to it.
    fn doc(&self) -> &'static str {
        "Compares an answer with the expected one. A problem names its verifier in the column `verifier`, for example \
         `{\"kind\": \"text\"}`; without a name it is `numeric`."
    }
    /// Whether `answer` is right when `expected` is the right one. Errors: what judges is away, or cannot judge; that
    /// is never a wrong answer.
    fn matches(&self, expected: &str, answer: &str) -> Result<bool>;
}
