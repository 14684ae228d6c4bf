//! Defines the trait of verifiers.

use super::extraction::AnswerForm;
use trainyard_core::Result;

/// Comparison of an answer with the expected one. Implementations are pure.
pub trait Verifier: Send + Sync {
    /// Returns the registered `kind`.
    fn kind(&self) -> &'static str;
    /// Returns a summary of one line for lists.
    fn summary(&self) -> &'static str;
    /// Returns Markdown that defines which answers are equal.
    fn doc(&self) -> &'static str {
        "Compares an answer with the expected one. A problem names its verifier in the column `verifier`, for example \
         `{\"kind\": \"text\"}`; without a name it is `numeric`."
    }
    /// Returns how an answer to this verifier is found in a text that is not itself the answer; by default the text
    /// counts whole.
    fn form(&self) -> AnswerForm {
        AnswerForm::Whole
    }
    /// Returns whether a text has the form of an answer, correct or not.
    fn reads(&self, answer: &str) -> bool {
        !answer.trim().is_empty()
    }
    /// Returns whether `answer` equals the correct answer `expected`, as this verifier defines equality. An error means
    /// that the judge is unavailable or cannot judge, never that the answer is incorrect.
    fn matches(&self, expected: &str, answer: &str) -> Result<bool>;
}
