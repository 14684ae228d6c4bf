//! Translates literals.

use super::value::{Kind, TypedExpr, truth};
use polars::prelude::lit;
use sqlparser::ast::Value;

/// Translates a literal whose printed form SQLite reads as the same value.
pub(crate) fn of(value: &Value) -> Option<TypedExpr> {
    match value {
        Value::Number(text, false) => number(text),
        Value::SingleQuotedString(text) => is_printable(text).then(|| TypedExpr::literal_text(text)),
        Value::Boolean(value) => Some(truth(lit(*value))),
        Value::Null => Some(TypedExpr::null()),
        _ => None,
    }
}

/// Whether the text comes back from its printed form: quotes in a row, or after a backslash, do not, and the text of a
/// statement ends at a zero.
fn is_printable(text: &str) -> bool {
    !text.contains("''") && !text.contains("\\'") && !text.contains('\0')
}

fn number(text: &str) -> Option<TypedExpr> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok().map(TypedExpr::literal_integer);
    }
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    let plain = mantissa.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    // Up to 15 digits and this exponent, every correct reader finds the same float.
    let exact = plain && (1..=15).contains(&digits) && exponent.parse::<i32>().ok()?.abs() <= 22;
    let value: f64 = text.parse().ok()?;
    exact.then(|| TypedExpr::new(Kind::Float, lit(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_integers_or_exact_floats() {
        let kind = |text: &str| number(text).map(|value| value.kind);
        assert_eq!(kind("12"), Some(Kind::Int(12)));
        assert_eq!(kind("9223372036854775807"), Some(Kind::Int(i64::MAX.unsigned_abs())));
        assert_eq!(kind("9223372036854775808"), None);
        assert_eq!(
            (kind("0.5"), kind("1e3"), kind("2.5E-3")),
            (Some(Kind::Float), Some(Kind::Float), Some(Kind::Float))
        );
        assert_eq!((kind("0.1234567890123456"), kind("1e400"), kind("1_000")), (None, None, None));
    }

    #[test]
    fn texts_that_do_not_come_back_are_left_to_sqlite() {
        let text = |text: &str| of(&Value::SingleQuotedString(text.into())).is_some();
        assert!(text("it's") && text("") && text("a\\b"));
        assert!(!text("it''s") && !text("a\\'b") && !text("a\0b"));
    }
}
