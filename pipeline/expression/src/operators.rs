//! Defines the operators on values, and their precedence.
//!
//! Null can be compared with any value for equality, so that `params.model == null` works; other mixed types are
//! errors. `/` always returns a float; `%` has the sign of its left side.

use super::value::type_name;
use serde_json::{Number, Value};
use std::cmp::Ordering;

/// An operator before its operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnaryOperator {
    /// `!a`, of a bool.
    Not,
    /// `-a`, of a number.
    Negate,
}

/// An operator between two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryOperator {
    /// `a || b`; b is not computed if a is true.
    Or,
    /// `a && b`; b is not computed if a is false.
    And,
    /// `a == b`; numbers are equal by value, whole or not.
    Equal,
    /// `a != b`.
    Unequal,
    /// `a < b`, of two numbers or two strings.
    Less,
    /// `a <= b`, likewise.
    LessEqual,
    /// `a > b`, likewise.
    Greater,
    /// `a >= b`, likewise.
    GreaterEqual,
    /// `a + b`, of two numbers or two strings.
    Add,
    /// `a - b`.
    Subtract,
    /// `a * b`.
    Multiply,
    /// `a / b`, always a float.
    Divide,
    /// `a % b`, with the sign of a.
    Remainder,
}

impl UnaryOperator {
    /// Returns the symbol in expressions.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Not => "!",
            Self::Negate => "-",
        }
    }
    /// Applies the operator. Errors, as texts: the operand has an incorrect type, or the result is out of range.
    pub fn apply(self, value: &Value) -> Result<Value, String> {
        match (self, value) {
            (Self::Not, Value::Bool(b)) => Ok(Value::Bool(!b)),
            (Self::Negate, Value::Number(n)) => match (n.as_i64(), n.as_f64()) {
                (Some(i), _) => i.checked_neg().map(Value::from).ok_or_else(overflow),
                (None, Some(f)) => finite(-f),
                _ => Err(overflow()),
            },
            (Self::Not, other) => Err(format!("`!` takes a bool, found {}", type_name(other))),
            (Self::Negate, other) => Err(format!("`-` takes a number, found {}", type_name(other))),
        }
    }
}

impl BinaryOperator {
    /// All operators, from the loosest to the tightest.
    pub const ALL: [Self; 13] = [
        Self::Or,
        Self::And,
        Self::Equal,
        Self::Unequal,
        Self::Less,
        Self::LessEqual,
        Self::Greater,
        Self::GreaterEqual,
        Self::Add,
        Self::Subtract,
        Self::Multiply,
        Self::Divide,
        Self::Remainder,
    ];
    /// Returns the symbol in expressions.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Or => "||",
            Self::And => "&&",
            Self::Equal => "==",
            Self::Unequal => "!=",
            Self::Less => "<",
            Self::LessEqual => "<=",
            Self::Greater => ">",
            Self::GreaterEqual => ">=",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        }
    }
    /// Returns the precedence, from 1 (loosest) to 6. Comparisons do not chain.
    pub fn precedence(self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And => 2,
            Self::Equal | Self::Unequal => 3,
            Self::Less | Self::LessEqual | Self::Greater | Self::GreaterEqual => 4,
            Self::Add | Self::Subtract => 5,
            Self::Multiply | Self::Divide | Self::Remainder => 6,
        }
    }
    /// Applies the operator to two known values; `||` and `&&` read both here, and the caller short-circuits. Errors,
    /// as texts: incorrect types, a division by zero, a result out of range.
    pub fn apply(self, a: &Value, b: &Value) -> Result<Value, String> {
        match self {
            Self::Or | Self::And => match (a, b) {
                (Value::Bool(a), Value::Bool(b)) => Ok(Value::Bool(if self == Self::Or { *a || *b } else { *a && *b })),
                _ => Err(self.mismatch(a, b, "two bools")),
            },
            Self::Equal => self.equal(a, b).map(Value::Bool),
            Self::Unequal => self.equal(a, b).map(|e| Value::Bool(!e)),
            Self::Less | Self::LessEqual | Self::Greater | Self::GreaterEqual => self.order(a, b).map(Value::Bool),
            Self::Add if a.is_string() && b.is_string() => {
                Ok(Value::String(format!("{}{}", a.as_str().unwrap_or_default(), b.as_str().unwrap_or_default())))
            }
            _ => self.arithmetic(a, b),
        }
    }
    fn equal(self, a: &Value, b: &Value) -> Result<bool, String> {
        match (a, b) {
            (Value::Null, _) | (_, Value::Null) => Ok(a == b),
            (Value::Number(x), Value::Number(y)) => Ok(compare(x, y) == Some(Ordering::Equal)),
            _ if std::mem::discriminant(a) == std::mem::discriminant(b) => Ok(a == b),
            _ => Err(self.mismatch(a, b, "two values of one type")),
        }
    }
    fn order(self, a: &Value, b: &Value) -> Result<bool, String> {
        let ordering = match (a, b) {
            (Value::Number(x), Value::Number(y)) => compare(x, y).ok_or_else(overflow)?,
            (Value::String(x), Value::String(y)) => x.cmp(y),
            _ => return Err(self.mismatch(a, b, "two numbers or two strings")),
        };
        Ok(match self {
            Self::Less => ordering.is_lt(),
            Self::LessEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            _ => ordering.is_ge(),
        })
    }
    fn arithmetic(self, a: &Value, b: &Value) -> Result<Value, String> {
        let (Value::Number(x), Value::Number(y)) = (a, b) else {
            let expected = if self == Self::Add { "two numbers or two strings" } else { "two numbers" };
            return Err(self.mismatch(a, b, expected));
        };
        if matches!(self, Self::Divide | Self::Remainder) && y.as_f64() == Some(0.0) {
            return Err("division by zero".into());
        }
        if let (Some(i), Some(j)) = (x.as_i64(), y.as_i64()) {
            let result = match self {
                Self::Add => i.checked_add(j),
                Self::Subtract => i.checked_sub(j),
                Self::Multiply => i.checked_mul(j),
                Self::Remainder => i.checked_rem(j),
                _ => return finite(i as f64 / j as f64),
            };
            return result.map(Value::from).ok_or_else(overflow);
        }
        let (f, g) = (x.as_f64().ok_or_else(overflow)?, y.as_f64().ok_or_else(overflow)?);
        finite(match self {
            Self::Add => f + g,
            Self::Subtract => f - g,
            Self::Multiply => f * g,
            Self::Divide => f / g,
            _ => f % g,
        })
    }
    fn mismatch(self, a: &Value, b: &Value, expected: &str) -> String {
        format!("`{}` takes {expected}, found {} and {}", self.symbol(), type_name(a), type_name(b))
    }
}

/// Compares integers exactly, and other numbers as f64.
pub fn compare(x: &Number, y: &Number) -> Option<Ordering> {
    match (x.as_i64(), y.as_i64()) {
        (Some(i), Some(j)) => Some(i.cmp(&j)),
        _ => x.as_f64()?.partial_cmp(&y.as_f64()?),
    }
}

/// Converts a float to a value; an error if it is not finite.
pub fn finite(value: f64) -> Result<Value, String> {
    Number::from_f64(value).map(Value::Number).ok_or_else(|| "the result is not a finite number".to_string())
}

fn overflow() -> String {
    "the result is too large for a 64-bit integer".into()
}
