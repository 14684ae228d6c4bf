//! Prints an expression as text that parses back to an equal expression, with as few parentheses as possible.

use super::{Expr, ExprKind, ExprReference, UnaryOperator};
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::fmt::{Display, Formatter, Result};

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match &self.kind {
            ExprKind::Literal(value) => write!(f, "{value}"),
            ExprKind::Reference(reference) => write!(f, "{reference}"),
            ExprKind::List(items) => {
                f.write_str("[")?;
                comma_separated(f, items)?;
                f.write_str("]")
            }
            ExprKind::Unary(operator, operand) => {
                f.write_str(operator.symbol())?;
                // `-1` would parse as a number.
                let number =
                    matches!(operand.kind, ExprKind::Literal(Value::Number(_))) && *operator == UnaryOperator::Negate;
                grouped(f, operand, number || matches!(operand.kind, ExprKind::Binary(..)))
            }
            ExprKind::Binary(operator, left, right) => {
                let level = operator.precedence();
                let comparison = matches!(level, 3 | 4);
                let inner = |e: &Expr| match &e.kind {
                    ExprKind::Binary(o, ..) => o.precedence(),
                    _ => u8::MAX,
                };
                let chained = |e: &Expr| comparison && matches!(inner(e), 3 | 4);
                grouped(f, left, inner(left) < level || chained(left))?;
                write!(f, " {} ", operator.symbol())?;
                grouped(f, right, inner(right) <= level || chained(right))
            }
            ExprKind::Index(base, index) => {
                let simple = match &base.kind {
                    ExprKind::Unary(..) | ExprKind::Binary(..) => false,
                    // `-1[0]` would parse as a negation.
                    ExprKind::Literal(Value::Number(number)) => number.as_f64().is_some_and(f64::is_sign_positive),
                    _ => true,
                };
                grouped(f, base, !simple)?;
                match &index.kind {
                    ExprKind::Literal(Value::String(name)) if is_name(name) && !is_metric(base) => {
                        // `1.e5` would parse as a number.
                        let number = matches!(base.kind, ExprKind::Literal(Value::Number(_)));
                        write!(f, "{}.{name}", if number { " " } else { "" })
                    }
                    _ => write!(f, "[{index}]"),
                }
            }
            ExprKind::Call(function, arguments) => {
                write!(f, "{}(", function.name())?;
                comma_separated(f, arguments)?;
                f.write_str(")")
            }
        }
    }
}

/// Whether a dot and a name after it parse as a number of a comparison, not as a key: `stages.a.metrics.m.low`.
fn is_metric(base: &Expr) -> bool {
    matches!(base.kind, ExprKind::Reference(ExprReference::Metric { of: None, .. }))
}

/// Serializes an expression as text.
impl Serialize for Expr {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Display for ExprReference {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Param(name) => write!(f, "params{}", member(name)),
            Self::Matrix(axis) => write!(f, "matrix{}", member(axis)),
            Self::Item => f.write_str("item"),
            Self::Input(port) => write!(f, "inputs{}", member(port)),
            Self::Output(port) => write!(f, "outputs{}", member(port)),
            Self::Artifact { stage, port } => write!(f, "stages{}{}", member(stage), member(port)),
            Self::Metric { stage, name, of } => {
                write!(f, "stages{}.metrics{}", member(stage), member(name))?;
                of.map_or(Ok(()), |of| write!(f, ".{}", of.name()))
            }
            Self::Status { stage } => write!(f, "stages{}.status", member(stage)),
        }
    }
}

fn grouped(f: &mut Formatter<'_>, e: &Expr, parentheses: bool) -> Result {
    if parentheses { write!(f, "({e})") } else { write!(f, "{e}") }
}

fn comma_separated(f: &mut Formatter<'_>, items: &[Expr]) -> Result {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

/// Formats a member: `.name`, or `["any text"]`.
fn member(name: &str) -> String {
    if is_name(name) { format!(".{name}") } else { format!("[{}]", Value::String(name.to_string())) }
}

/// Whether a text is valid after a dot: ASCII letters, digits and `_`, starting with no digit.
pub fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
}
