//! Prints an expression as text that parses back to an equal expression, with as few parentheses as possible.

use super::name::ScopeName;
use super::operators::UnaryOperator;
use super::tree::{Expr, ExpressionKind};
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::fmt::{Display, Formatter, Result};

impl<N: ScopeName> Display for Expr<N> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.kind {
            ExpressionKind::Literal(value) => write!(f, "{value}"),
            ExpressionKind::Reference(name) => write!(f, "{name}"),
            ExpressionKind::List(items) => {
                f.write_str("[")?;
                comma_separated(f, items)?;
                f.write_str("]")
            }
            ExpressionKind::Unary(operator, operand) => {
                f.write_str(operator.symbol())?;
                // `-1` would parse as a number.
                let number = matches!(operand.kind, ExpressionKind::Literal(Value::Number(_)))
                    && *operator == UnaryOperator::Negate;
                grouped(f, operand, number || matches!(operand.kind, ExpressionKind::Binary(..)))
            }
            ExpressionKind::Binary(operator, left, right) => {
                let level = operator.precedence();
                let comparison = matches!(level, 3 | 4);
                let inner = |e: &Self| match &e.kind {
                    ExpressionKind::Binary(o, ..) => o.precedence(),
                    _ => u8::MAX,
                };
                let chained = |e: &Self| comparison && matches!(inner(e), 3 | 4);
                grouped(f, left, inner(left) < level || chained(left))?;
                write!(f, " {} ", operator.symbol())?;
                grouped(f, right, inner(right) <= level || chained(right))
            }
            ExpressionKind::Index(base, index) => {
                let simple = match &base.kind {
                    ExpressionKind::Unary(..) | ExpressionKind::Binary(..) => false,
                    // `-1[0]` would parse as a negation.
                    ExpressionKind::Literal(Value::Number(number)) => {
                        number.as_f64().is_some_and(f64::is_sign_positive)
                    }
                    _ => true,
                };
                grouped(f, base, !simple)?;
                match &index.kind {
                    ExpressionKind::Literal(Value::String(name)) if is_name(name) && !takes_word(base) => {
                        // `1.e5` would parse as a number.
                        let number = matches!(base.kind, ExpressionKind::Literal(Value::Number(_)));
                        write!(f, "{}.{name}", if number { " " } else { "" })
                    }
                    _ => write!(f, "[{index}]"),
                }
            }
            ExpressionKind::Call(function, arguments) => {
                write!(f, "{}(", function.name())?;
                comma_separated(f, arguments)?;
                f.write_str(")")
            }
        }
    }
}

/// Serializes an expression as text.
impl<N: ScopeName> Serialize for Expr<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn takes_word<N: ScopeName>(e: &Expr<N>) -> bool {
    matches!(&e.kind, ExpressionKind::Reference(name) if name.takes_word())
}

fn grouped<N: ScopeName>(f: &mut Formatter<'_>, e: &Expr<N>, parentheses: bool) -> Result {
    if parentheses { write!(f, "({e})") } else { write!(f, "{e}") }
}

fn comma_separated<N: ScopeName>(f: &mut Formatter<'_>, items: &[Expr<N>]) -> Result {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

/// Formats a member: `.name`, or `["any text"]`.
pub fn member(name: &str) -> String {
    if is_name(name) { format!(".{name}") } else { format!("[{}]", Value::String(name.to_string())) }
}

/// Whether a text is valid after a dot: ASCII letters, digits and `_`, starting with no digit.
pub fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}
