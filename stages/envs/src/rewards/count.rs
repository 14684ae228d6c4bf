//! Defines the names available to the reward `expression`, and their dialect of the expression language.

use std::fmt::{Display, Formatter};
use std::ops::Range;
use trainyard_expression::{
    BuiltinFunction, Expr, ExpressionDialect, ExpressionError, ExpressionErrorKind, MAX_DEPTH, Scope, ScopeName,
    TokenReader,
};

/// Names available in an expression.
pub const NAMES: [&str; 8] = ["answered", "correct", "level", "step", "tokens", "tool_calls", "tool_errors", "turns"];

const FUNCTIONS: [BuiltinFunction; 5] =
    [BuiltinFunction::Abs, BuiltinFunction::If, BuiltinFunction::Max, BuiltinFunction::Min, BuiltinFunction::Sqrt];
const MAX_BYTES: usize = 4096;

/// An expression over the counts of an episode. Its value may be infinite or not a number.
pub type Formula = Expr<EpisodeCount>;

/// Index into [`NAMES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpisodeCount(usize);

impl Display for EpisodeCount {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(NAMES[self.0])
    }
}

/// Dialect with numbers as the only type. Truth values are 1 and 0, so `2 * (turns < 3)` is a bonus.
impl ScopeName for EpisodeCount {
    type Value = f64;
    // Only the length of an expression limits the number of its words and the depth of its operands.
    const DIALECT: ExpressionDialect = ExpressionDialect {
        numbers: true,
        words: true,
        functions: &FUNCTIONS,
        most_tokens: MAX_BYTES,
        deepest: MAX_BYTES,
    };
    fn read(root: &str, range: &Range<usize>, _: &mut TokenReader) -> Result<Self, ExpressionError> {
        if let Some(index) = NAMES.iter().position(|name| *name == root) {
            return Ok(Self(index));
        }
        if Self::DIALECT.function(root).is_some() {
            return Err(ExpressionError::new(range, format!("`{root}` is a function: write `{root}(…)`")));
        }
        Err(unknown(root, range))
    }
    fn no_function(name: &str, range: &Range<usize>) -> ExpressionError {
        if NAMES.contains(&name) {
            return ExpressionError::misplaced(&(range.end..range.end), format!("`{name}` is a number"));
        }
        unknown(name, range)
    }
    fn wrong_number(function: BuiltinFunction, found: usize, range: &Range<usize>) -> ExpressionError {
        let name = function.name();
        ExpressionError::new(
            range,
            match function.arity() {
                (min, max) if min == max => format!("`{name}` takes {min} values, not {found}"),
                (min, _) => format!("`{name}` takes {min} or more values, not {found}"),
            },
        )
    }
}

/// Values of [`NAMES`], in their order.
pub struct EpisodeCounts(pub [f64; NAMES.len()]);

impl Scope<EpisodeCount> for EpisodeCounts {
    fn value(&self, name: &EpisodeCount) -> Option<f64> {
        self.0.get(name.0).copied()
    }
}

/// Parses an expression over [`NAMES`]. The error describes the problem and its position.
pub fn parse(text: &str) -> Result<Formula, String> {
    if text.len() > MAX_BYTES {
        return Err(format!("an expression has at most {MAX_BYTES} bytes"));
    }
    Formula::parse(text).map_err(|fault| describe(text, fault))
}

fn unknown(name: &str, range: &Range<usize>) -> ExpressionError {
    let functions = FUNCTIONS.map(|function| format!("{}(…)", function.name())).join(", ");
    ExpressionError::new(range, format!("unknown name `{name}`; use {}, {functions}", NAMES.join(", ")))
}

/// Describes an error in one line of text.
fn describe(text: &str, fault: ExpressionError) -> String {
    match fault.cause {
        ExpressionErrorKind::Other => fault.message,
        ExpressionErrorKind::TooDeep => format!("the expression is nested deeper than {MAX_DEPTH}"),
        ExpressionErrorKind::Misplaced => {
            let rest = text[fault.range.start..].trim_start();
            match rest.chars().next() {
                None => "the expression ends too early".to_string(),
                Some(c) => format!("unexpected `{c}` at byte {}", text.len() - rest.len() + 1),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> f64 {
        let counts = NAMES.map(|name| match name {
            "correct" => 1.0,
            "tool_calls" => 3.0,
            _ => 0.0,
        });
        parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).evaluate(&EpisodeCounts(counts)).unwrap()
    }

    #[test]
    fn expressions_are_evaluated() {
        for (text, expected) in [
            ("correct - 0.01 * tool_calls", 0.97),
            ("1 + 2 * 3", 7.0),
            ("(1 + 2) * 3", 9.0),
            ("8 / 4 / 2", 1.0),
            ("5 - 3 - 1", 1.0),
            ("- -2", 2.0),
            ("-2 + 5", 3.0),
            ("1e-3 * 1E3", 1.0),
            ("tool_calls > 2", 1.0),
            ("tool_calls >= 3 and not correct", 0.0),
            ("0 or correct == 1", 1.0),
            ("tool_calls != 3", 0.0),
            ("if(correct, 2, 1 / 0)", 2.0),
            ("max(1, tool_calls, 2) + min(4, 5) + abs(-1) + sqrt(9)", 11.0),
            ("not not correct", 1.0),
            ("tool_calls >= 3 && !correct || tool_calls % 2", 1.0),
        ] {
            assert_eq!(value(text), expected, "{text}");
        }
    }

    #[test]
    fn errors_name_their_cause() {
        for (text, words) in [
            ("", "ends too early"),
            ("1 +", "ends too early"),
            ("1 2", "`2` at byte 3"),
            ("(1", "ends too early"),
            ("corect", "unknown name `corect`; use answered, correct, level, "),
            ("corect", "tool_errors, turns, abs(…), if(…), max(…), min(…), sqrt(…)"),
            ("corect(1)", "unknown name `corect`"),
            ("correct(1)", "unexpected `(` at byte 8"),
            ("max", "is a function"),
            ("abs(1, 2)", "`abs` takes 1 values, not 2"),
            ("1..2", "unexpected"),
            ("correct $", "`$` at byte 9"),
            ("1 é", "`é`"),
            ("2turns", "`t` at byte 2"),
            ("1 < 2 < 3", "`<` at byte 7"),
            ("correct == 'yes'", "`'` at byte 12"),
            ("len(1)", "unknown name `len`"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
        assert!(parse(&"(".repeat(100)).unwrap_err().contains("nested"));
        assert!(parse(&"1+".repeat(3_000)).unwrap_err().contains("at most"));
    }
}
