//! Implements the verifier `countdown`: an expression that makes the target from the given numbers.
//!
//! The expected answer is itself an expression: its value is the target, its numbers are the given ones. An answer is
//! correct if it has the same value and uses no number more often than given; it need not use all numbers. It may
//! contain whole numbers, parentheses and `+ - * /` (or `× ÷ −`); values are exact fractions, so `8/(3-8/3)` is 24. A
//! claim may follow (`3*8=24`) and must then be true.

use crate::number::Number;
use crate::tools::calculator::evaluate;
use crate::verifiers::{AnswerForm, Verifier};
use trainyard_core::Result;

pub struct CountdownVerifier;

impl Verifier for CountdownVerifier {
    fn kind(&self) -> &'static str {
        "countdown"
    }
    fn summary(&self) -> &'static str {
        "an expression that makes the target from the given numbers"
    }
    fn form(&self) -> AnswerForm {
        AnswerForm::Marked
    }
    fn reads(&self, answer: &str) -> bool {
        answer.split('=').next().and_then(read).is_some()
    }
    fn matches(&self, expected: &str, answer: &str) -> Result<bool> {
        let mut sides = answer.split('=');
        let (Some((target, mut given)), Some((value, used))) = (read(expected), sides.next().and_then(read)) else {
            return Ok(false);
        };
        let takes = |number: u64| given.iter().position(|n| *n == number).map(|at| given.swap_remove(at)).is_some();
        let right = value == target
            && used.into_iter().all(takes)
            && sides.all(|side| read(side).is_some_and(|(claim, _)| claim == target));
        Ok(right)
    }
}

/// Returns the value of an expression and its numbers, in order. Returns `None` if the text is not such an expression
/// or has no value.
pub fn read(text: &str) -> Option<(Number, Vec<u64>)> {
    let text = text.replace('×', "*").replace('÷', "/").replace('−', "-");
    let known = |c: char| c.is_ascii_digit() || c.is_ascii_whitespace() || "+-*/()".contains(c);
    if !text.chars().all(known) || text.contains("**") || text.contains("//") {
        return None;
    }
    let literals = text.split(|c: char| !c.is_ascii_digit()).filter(|literal| !literal.is_empty());
    let numbers = literals.map(|literal| literal.parse().ok()).collect::<Option<Vec<u64>>>()?;
    Some((evaluate(&text).ok()?, numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(expected: &str, answer: &str) -> bool {
        CountdownVerifier.matches(expected, answer).unwrap()
    }

    #[test]
    fn value_decides_and_no_number_is_used_twice() {
        let right = |answer: &str| accepts("(3+5)*7-8", answer);
        for answer in ["(3+5)*7-8", "7*(5+3)-8", " 7 × (5 + 3) − 8\n", "5*7+3*7-8"] {
            assert_eq!(right(answer), answer.matches('7').count() == 1, "{answer}");
        }
        for answer in
            ["48", "56-8", "7*7-1", "", "x", "(3+5)*7-8.0", "(3+5)*7-8 or so", "(3+5)*7-8)", "(3+5)**7", "(3+5)*7//8"]
        {
            assert!(!right(answer), "{answer}");
        }
        assert!(accepts("6*8+3-3", "6*8"), "numbers may be left over");
    }

    #[test]
    fn repeated_numbers_count_and_digits_do_not_join() {
        assert!(accepts("2+2", "2*2"));
        assert!(!accepts("2+6", "2+2+2+2"));
        assert!(!accepts("1*2*6", "12"));
        assert!(accepts("12+0", "12"));
    }

    #[test]
    fn fractions_are_exact_and_claims_must_hold() {
        assert!(accepts("3*8+3-3+0*8", "8/(3-8/3)"));
        assert!(accepts("3*8", "8*3 = 24"));
        assert!(accepts("3*8", "8*3 = 3*8 = 24"));
        assert!(!accepts("3*8", "8*3 = 25"));
        assert!(!accepts("3*8", "8*3 ="));
        assert!(!accepts("3*8", "8/0"));
        assert!(!accepts("nonsense", "24"));
    }
}
