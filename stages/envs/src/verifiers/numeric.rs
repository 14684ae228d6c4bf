//! Implements the verifier `numeric`: numbers that are equal within 1e-6.
//!
//! It reads the forms of GSM8K and its users (arXiv 2110.14168): `1,234`, `$5`, `12.0`, `3/4`, `\frac{3}{4}`, `25%` (as
//! 25), a unit after the number (`5 apples`), a period at the end. It compares numbers as exact fractions, so
//! `0.333333` equals `1/3`. A text with two numbers (`3 or 4`) is incorrect.

use crate::number::Number;
use crate::verifiers::{AnswerForm, Verifier};
use trainyard_core::Result;

/// Largest difference between equal answers.
pub const TOLERANCE: f64 = 1e-6;

pub struct NumericVerifier;

impl Verifier for NumericVerifier {
    fn kind(&self) -> &'static str {
        "numeric"
    }
    fn summary(&self) -> &'static str {
        "equal as numbers, within 1e-6"
    }
    fn form(&self) -> AnswerForm {
        AnswerForm::Number
    }
    fn reads(&self, answer: &str) -> bool {
        read_number(answer).is_some()
    }
    fn matches(&self, expected: &str, answer: &str) -> Result<bool> {
        Ok(match (read_number(expected), read_number(answer)) {
            (Some(a), Some(b)) => near(a, b),
            _ => false,
        })
    }
}

/// Returns whether two numbers differ by at most [`TOLERANCE`].
pub fn near(a: Number, b: Number) -> bool {
    let tolerance = Number::ratio(1, 1_000_000);
    match (a.subtract(b), tolerance) {
        (Some(difference), Some(tolerance)) => {
            let size = if difference < Number::ZERO { difference.negate() } else { Some(difference) };
            size.is_some_and(|size| size <= tolerance)
        }
        // Too many digits for exact fractions; floats are close enough there.
        _ => (a.to_f64() - b.to_f64()).abs() <= TOLERANCE,
    }
}

/// Returns the number in a text; `None` if the text contains no number or several.
pub fn read_number(text: &str) -> Option<Number> {
    let text = text.trim();
    let text =
        text.strip_prefix("####").unwrap_or(text).replace("\\$", "").replace("\\%", "").replace("\\dfrac", "\\frac");
    if let Some(fraction) = text.trim().strip_prefix("\\frac{") {
        let (over, rest) = fraction.split_once("}{")?;
        let (under, tail) = rest.split_once('}')?;
        return if tail.trim().is_empty() { decimal(over)?.divide(decimal(under)?) } else { None };
    }
    let cleaned: String = text.chars().filter(|c| !matches!(c, '$' | '€' | '£' | '%')).collect();
    let cleaned = cleaned.trim().replace('−', "-");
    let (sign, body) = match cleaned.strip_prefix('-') {
        Some(body) => (-1, body.trim_start()),
        None => (1, cleaned.strip_prefix('+').unwrap_or(&cleaned)),
    };
    let length = body.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '/'))).unwrap_or(body.len());
    let (number, unit) = body.split_at(length);
    // A unit may follow, but not a second number.
    if unit.chars().any(|c| c.is_ascii_digit()) {
        return None;
    }
    let number = number.trim_end_matches(['.', ',']);
    let value = match number.split_once('/') {
        Some((over, under)) => decimal(over)?.divide(decimal(under)?)?,
        None => decimal(number)?,
    };
    if sign < 0 { value.negate() } else { Some(value) }
}

/// Parses a decimal, which may have `,` between groups of three digits.
fn decimal(text: &str) -> Option<Number> {
    let text = text.trim();
    if let Some((first, rest)) = text.split_once(',') {
        let (groups, _) = rest.split_once('.').unwrap_or((rest, ""));
        let first = first.strip_prefix('-').unwrap_or(first);
        if !(1..=3).contains(&first.len()) || groups.split(',').any(|group| group.len() != 3) {
            return None;
        }
    }
    Number::parse(&text.replace(',', ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(expected: &str, answer: &str) -> bool {
        NumericVerifier.matches(expected, answer).unwrap()
    }
    use proptest::prelude::*;

    #[test]
    fn notations_of_one_number_are_equal() {
        for (expected, answer) in [
            ("1234", "1,234"),
            ("1234", "#### 1,234"),
            ("5", "$5.00"),
            ("5", "\\$5"),
            ("12", "12.0"),
            ("12", "12."),
            ("0.75", "3/4"),
            ("0.5", "\\frac{1}{2}"),
            ("-3", "- 3"),
            ("-3", "−3"),
            ("25", "25%"),
            ("5", "5 apples"),
            ("1/3", "0.3333333"),
            ("1000000.5", "1,000,000.5"),
            ("7", "+7"),
        ] {
            assert!(accepts(expected, answer), "{expected} {answer}");
        }
    }

    #[test]
    fn other_numbers_and_non_numbers_differ() {
        for (expected, answer) in [
            ("5", "6"),
            ("5", ""),
            ("5", "five"),
            ("5", "5 or 6"),
            ("34", "3,4"),
            ("1234", "12,34"),
            ("0.333", "1/3"),
            ("5", "5.00001"),
            ("5", "1/0"),
            ("5", "-5"),
            ("5", "x=5"),
            ("", ""),
        ] {
            assert!(!accepts(expected, answer), "{expected} {answer}");
        }
        assert!(accepts("5", "5.0000009"));
    }

    proptest! {
        #[test]
        fn any_integer_matches_itself_and_not_its_neighbor(n in -10_000_000i64..10_000_000) {
            let with_point = format!("{n}.0");
            prop_assert!(accepts(&n.to_string(), &with_point));
            prop_assert!(!accepts(&n.to_string(), &(n + 1).to_string()));
        }

        #[test]
        fn any_text_is_read_without_a_panic(text in "\\PC{0,20}", other in "[-0-9,./$% ]{0,20}") {
            let _ = read_number(&text);
            let _ = read_number(&other);
        }
    }
}
