//! Implements the verifier `text`: texts that are equal after trimming, folding case and joining white space.
//!
//! An empty expected answer matches no answer.

use crate::verifiers::{AnswerForm, Verifier};
use trainyard_core::Result;

pub struct TextVerifier;

fn folded(text: &str) -> String {
    text.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

impl Verifier for TextVerifier {
    fn kind(&self) -> &'static str {
        "text"
    }
    fn summary(&self) -> &'static str {
        "equal texts after folding case and white space"
    }
    fn form(&self) -> AnswerForm {
        AnswerForm::Words
    }
    fn matches(&self, expected: &str, answer: &str) -> Result<bool> {
        let expected = folded(expected);
        Ok(!expected.is_empty() && expected == folded(answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(expected: &str, answer: &str) -> bool {
        TextVerifier.matches(expected, answer).unwrap()
    }

    #[test]
    fn case_and_space_are_ignored() {
        assert!(accepts("New York", " new\n york "));
        assert!(!accepts("New York", "York"));
        assert!(!accepts("", ""));
    }
}
