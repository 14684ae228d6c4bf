//! Tests the language in the dialect of 64-bit floats, as rewards use it.

use super::*;
use proptest::prelude::*;
use std::fmt::{Display, Formatter};
use std::ops::Range;

/// A letter; `a` is 1, `b` is 3.
#[derive(Debug, Clone, PartialEq)]
struct Letter(String);

impl Display for Letter {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl ScopeName for Letter {
    type Value = f64;
    const DIALECT: ExpressionDialect = ExpressionDialect {
        numbers: true,
        words: true,
        functions: &[BuiltinFunction::Abs, BuiltinFunction::If, BuiltinFunction::Max],
        most_tokens: 4096,
        deepest: 4096,
    };
    fn read(root: &str, range: &Range<usize>, _: &mut TokenReader) -> std::result::Result<Self, ExpressionError> {
        if ["a", "b"].contains(&root) {
            Ok(Self(root.to_string()))
        } else {
            Err(ExpressionError::new(range, "no such letter"))
        }
    }
    fn no_function(name: &str, range: &Range<usize>) -> ExpressionError {
        ExpressionError::new(range, format!("no function {name}"))
    }
}

struct Known;

impl Scope<Letter> for Known {
    fn value(&self, name: &Letter) -> Option<f64> {
        Some(if name.0 == "a" { 1.0 } else { 3.0 })
    }
}

fn read(text: &str) -> Expr<Letter> {
    Expr::parse(text).unwrap_or_else(|fault| panic!("{text}: {}", fault.message))
}

#[test]
fn word_operators_equal_symbols() {
    for (words, signs) in [
        ("a and b or not a", "a && b || !a"),
        ("not a == b", "!(a == b)"),
        ("not not a < 2 and b", "!!(a < 2) && b"),
        ("not -a + 1 > 0", "!(-a + 1 > 0)"),
        ("2or(b)and 1", "2 || b && 1"),
        (".5 + 1. == 1.5", "0.5 + 1.0 == 1.5"),
    ] {
        assert_eq!(read(words), read(signs), "{words}");
    }
    for text in ["1 + not a", "a == not b", "-not a", "or", "a b", "1 < 2 < 3", "'a'", "[1]", "a.b", "a[0]", "true"] {
        assert!(Expr::<Letter>::parse(text).is_err(), "{text}");
    }
}

#[test]
fn numbers_may_be_infinite_or_nan() {
    for (text, expected) in [
        ("1 / 0", f64::INFINITY),
        ("max(1 / 0 - 1 / 0, b)", 3.0),
        ("0 / 0 == 0 / 0", 0.0),
        ("if(0 / 0, 1, 2)", 1.0),
        ("7 % 4 / 2", 1.5),
        ("2 * (b > 2)", 2.0),
        ("9007199254740993 - 9007199254740992", 0.0),
        ("1 / -0", f64::NEG_INFINITY),
        ("a && 3", 1.0),
        ("3 || 1 / 0", 1.0),
    ] {
        assert_eq!(read(text).evaluate(&Known).unwrap(), expected, "{text}");
    }
    assert_eq!(read("a + (b < 2)").check_types(), Ok(ExprType::Float));
}

#[test]
fn long_chains_are_parsed() {
    let sum = format!("1{}", "+1".repeat(600));
    assert_eq!(read(&sum).evaluate(&Known).unwrap(), 601.0);
    assert_eq!(read(&format!("{}1", "- ".repeat(300))).evaluate(&Known).unwrap(), 1.0);
    assert_eq!(read(&format!("{}1", "not ".repeat(301))).evaluate(&Known).unwrap(), 0.0);
    let nested = |levels: usize| format!("{}1{}", "(1 + 2 * ".repeat(levels), ")".repeat(levels));
    assert!(read(&nested(MAX_DEPTH - 1)).evaluate(&Known).unwrap() > 1.0);
    assert_eq!(Expr::<Letter>::parse(&nested(MAX_DEPTH)).unwrap_err().cause, ExpressionErrorKind::TooDeep);
}

proptest! {
    #[test]
    fn numbers_print_as_text_that_is_read_back(text in "[-0-9.+*/%()<>=!ab &|,]{0,40}") {
        if let Ok(first) = Expr::<Letter>::parse(&text) {
            let printed = first.to_string();
            let second = Expr::<Letter>::parse(&printed).unwrap();
            prop_assert_eq!(&first, &second, "{}", printed);
        }
    }
}
