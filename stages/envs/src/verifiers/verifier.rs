//! What a verifier is.

/// Compares an answer with the expected one. Pure.
pub trait Verifier: Send + Sync {
    /// The `kind` it is registered under.
    fn kind(&self) -> &'static str;
    /// One line for lists.
    fn summary(&self) -> &'static str;
    /// Whether `answer` is right, given what is expected.
    fn matches(&self, expected: &str, answer: &str) -> bool;
}
