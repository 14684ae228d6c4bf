//! Computes stable ids of imported problems, and the halves of a split.
//!
//! An id depends only on the question and not on its line, so reordered files and other files about the same questions
//! (solutions) get equal ids. The half is the first bit of the SHA-256 of the question's UTF-8 bytes, so any tool can
//! recompute it: 0 → `a`, 1 → `b`. Questions are hashed unchanged, because normalization would differ between tools.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use trainyard_core::Digest;

/// Half of a data set, by the SHA-256 of the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Half {
    /// The first bit of SHA-256(question) is 0.
    A,
    /// The first bit of SHA-256(question) is 1.
    B,
}

/// Returns the half that a question belongs to.
pub fn half_of(question: &str) -> Half {
    match Digest::of(question.as_bytes()).as_str().as_bytes()[0] {
        b'0'..=b'7' => Half::A,
        _ => Half::B,
    }
}

/// Returns `<prefix>-<first 12 hexadecimal characters of SHA-256(question)>`.
pub fn problem_id(prefix: &str, question: &str) -> String {
    format!("{prefix}-{}", Digest::of(question.as_bytes()).short())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_follow_the_first_bit() {
        // SHA-256("abc") = ba78…, SHA-256("a") = ca97…, SHA-256("hello") = 2cf2….
        assert_eq!((half_of("abc"), half_of("hello")), (Half::B, Half::A));
        assert_eq!(problem_id("gsm8k", "abc"), "gsm8k-ba7816bf8f01");
    }
}
