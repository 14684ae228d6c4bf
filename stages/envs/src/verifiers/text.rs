//! `text`: equal after trimming, folding case and joining white space. An empty expected answer matches nothing.

use crate::verifiers::Verifier;

/// The verifier `text`.
pub struct Text;

fn folded(text: &str) -> String {
    text.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

impl Verifier for Text {
    fn kind(&self) -> &'static str {
        "text"
    }
    fn summary(&self) -> &'static str {
        "equal texts after folding case and white space"
    }
    fn matches(&self, expected: &str, answer: &str) -> bool {
        let expected = folded(expected);
        !expected.is_empty() && expected == folded(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_and_space_are_ignored() {
        assert!(Text.matches("New York", " new\n york "));
        assert!(!Text.matches("New York", "York"));
        assert!(!Text.matches("", ""));
    }
}
