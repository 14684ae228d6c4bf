//! Implements the verifier `calls`: the same tool calls in any order, with repetitions ([`crate::calls::equal`]).
//!
//! Both answers are JSON lists, `[{"name": …, "arguments": {…}}]`, as `function-calling` makes them from a turn; other
//! text is incorrect. The reward `call_match` grades near misses.

use crate::calls::{equal, read};
use crate::verifiers::Verifier;
use trainyard_core::Result;

pub struct CallsVerifier;

impl Verifier for CallsVerifier {
    fn kind(&self) -> &'static str {
        "calls"
    }
    fn summary(&self) -> &'static str {
        "the same tool calls in any order"
    }
    fn reads(&self, answer: &str) -> bool {
        read(answer).is_some()
    }
    fn matches(&self, expected: &str, answer: &str) -> Result<bool> {
        Ok(match (read(expected), read(answer)) {
            (Some(gold), Some(given)) => equal(&given, &gold),
            _ => false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(expected: &str, answer: &str) -> bool {
        CallsVerifier.matches(expected, answer).unwrap()
    }

    #[test]
    fn order_is_ignored_but_every_call_counts() {
        let (a, b) = (r#"{"name":"f","arguments":{"x":1,"y":"s"}}"#, r#"{"name":"g","arguments":{}}"#);
        let gold = format!("[{a},{b}]");
        assert!(accepts(&gold, &format!("[{b}, {a}]")));
        assert!(accepts(&gold, r#"[{"name":"g","arguments":{}},{"name":"f","arguments":{"y":"s","x":1.0}}]"#));
        assert!(accepts("[]", "[]"));
        for wrong in [
            format!("[{a}]"),
            format!("[{a},{a}]"),
            format!("[{a},{b},{b}]"),
            gold.replace('1', "2"),
            "[]".to_string(),
            String::new(),
            "{".to_string(),
        ] {
            assert!(!accepts(&gold, &wrong), "{wrong}");
        }
        assert!(!accepts("", "") && !accepts("f()", "f()"), "other text is never right");
    }
}
