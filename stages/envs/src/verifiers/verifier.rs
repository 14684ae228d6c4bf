//! Defines the trait of verifiers.

use trainyard_core::Result;

/// Compares an answer with the expected one. Implementations are pure.
pub trait Verifier: Send + Sync {
    /// Returns the registered `kind`.
    fn kind(&self) -> &'static str;
    /// Returns one line for lists.
    fn summary(&self) -> &'static str;
    /// Returns Markdown that defines which answers are equal.
    fn doc(&self) -> &'static str {
        "Compares an answer with the expected one. A problem names its verifier in the column `verifier`, for example \
         `{\"kind\": \"text\"}`; without a name it is `numeric`."
    }
    /// Returns whether `answer` is right when `expected` is the right one. Errors: the judge is unavailable or cannot
    /// judge; that never means a wrong answer.
    fn matches(&self, expected: &str, answer: &str) -> Result<bool>;
}
