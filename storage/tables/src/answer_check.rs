//! Defines the comparison of a final answer with the expected one.

use serde::{Deserialize, Serialize};

/// Comparison of an episode's final answer with the expected one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AnswerCheck {
    /// Expected answer.
    pub expected: String,
    /// Answer that was compared; `None` if the episode has no readable answer.
    pub extracted: Option<String>,
    /// Kind of the verifier, or of the environment or program that decided.
    pub verifier: String,
    /// Whether the answer is correct.
    pub correct: bool,
    /// Reason why there is no readable answer; `None` if there is one.
    pub unreadable: Option<String>,
}

impl AnswerCheck {
    /// Returns the check of an answer that was compared as a whole.
    pub fn whole(expected: &str, answer: &str, verifier: &str, correct: bool) -> Self {
        let (expected, verifier) = (expected.to_string(), verifier.to_string());
        Self { expected, extracted: Some(answer.to_string()), verifier, correct, unreadable: None }
    }
}
