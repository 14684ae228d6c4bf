//! Implements the built-in functions of the language. A dialect has some of them.
//!
//! To add one, add a variant, an arm in [`BuiltinFunction::call`] and one in the type pass.

use super::operators::{BinaryOperator, UnaryOperator, compare, finite};
use super::value::{type_name, value_text};
use serde_json::Value;
use std::cmp::Ordering;

/// A function by its name in the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuiltinFunction {
    /// Characters of a string, items of a list or map.
    Len,
    /// Smallest number of a list, or of two or more numbers.
    Min,
    /// Largest number of a list, or of two or more numbers.
    Max,
    /// `contains(list, value)`, `contains(string, part)`, `contains(map, key)`.
    Contains,
    /// `starts_with(string, prefix)`.
    StartsWith,
    /// `default(a, b)`: b if a is null or was never measured.
    Default,
    /// `join(list, separator)`.
    Join,
    /// Magnitude of a number.
    Abs,
    /// Square root of a number.
    Sqrt,
    /// `if(condition, then, else)`; only one of the two is computed.
    If,
}

impl BuiltinFunction {
    /// Returns the name in expressions.
    pub fn name(self) -> &'static str {
        match self {
            Self::Len => "len",
            Self::Min => "min",
            Self::Max => "max",
            Self::Contains => "contains",
            Self::StartsWith => "starts_with",
            Self::Default => "default",
            Self::Join => "join",
            Self::Abs => "abs",
            Self::Sqrt => "sqrt",
            Self::If => "if",
        }
    }
    /// Returns the least and most number of arguments.
    pub fn arity(self) -> (usize, usize) {
        match self {
            Self::Len | Self::Abs | Self::Sqrt => (1, 1),
            Self::Min | Self::Max => (1, usize::MAX),
            Self::Contains | Self::StartsWith | Self::Default | Self::Join => (2, 2),
            Self::If => (3, 3),
        }
    }
    /// Calls the function; the parser has checked the number of arguments. Errors, as texts: incorrect types, a result
    /// out of range.
    pub fn call(self, arguments: &[Value]) -> Result<Value, String> {
        match (self, arguments) {
            (Self::Len, [Value::String(s)]) => Ok(s.chars().count().into()),
            (Self::Len, [Value::Array(a)]) => Ok(a.len().into()),
            (Self::Len, [Value::Object(m)]) => Ok(m.len().into()),
            (Self::Min, [Value::Array(items)]) => extreme(self, items, Ordering::Less),
            (Self::Max, [Value::Array(items)]) => extreme(self, items, Ordering::Greater),
            (Self::Min, items) => extreme(self, items, Ordering::Less),
            (Self::Max, items) => extreme(self, items, Ordering::Greater),
            (Self::Contains, [Value::Array(items), wanted]) => {
                Ok(items.iter().any(|i| BinaryOperator::Equal.apply(i, wanted) == Ok(Value::Bool(true))).into())
            }
            (Self::Contains, [Value::String(s), Value::String(part)]) => Ok(s.contains(part.as_str()).into()),
            (Self::Contains, [Value::Object(m), Value::String(key)]) => Ok(m.contains_key(key).into()),
            (Self::StartsWith, [Value::String(s), Value::String(prefix)]) => Ok(s.starts_with(prefix.as_str()).into()),
            (Self::Default, [Value::Null, other]) => Ok(other.clone()),
            (Self::Default, [value, _]) => Ok(value.clone()),
            (Self::Join, [Value::Array(items), Value::String(separator)]) => {
                Ok(items.iter().map(value_text).collect::<Vec<_>>().join(separator).into())
            }
            (Self::Abs, [value @ Value::Number(n)]) if n.as_f64().is_some_and(f64::is_sign_negative) => {
                UnaryOperator::Negate.apply(value)
            }
            (Self::Abs, [value @ Value::Number(_)]) => Ok(value.clone()),
            (Self::Sqrt, [Value::Number(n)]) => finite(n.as_f64().unwrap_or(f64::NAN).sqrt()),
            (Self::If, [Value::Bool(condition), then, other]) => Ok(if *condition { then } else { other }.clone()),
            _ => {
                let found: Vec<&str> = arguments.iter().map(type_name).collect();
                Err(format!("`{}` takes {}, found {}", self.name(), self.takes(), found.join(" and ")))
            }
        }
    }
    /// Describes valid arguments, for messages.
    pub fn takes(self) -> &'static str {
        match self {
            Self::Len => "a string, a list or a map",
            Self::Min | Self::Max => "a list of numbers, or numbers",
            Self::Contains => "a list and a value, two strings, or a map and a key",
            Self::StartsWith => "two strings",
            Self::Default => "two values",
            Self::Join => "a list and a string",
            Self::Abs | Self::Sqrt => "a number",
            Self::If => "a bool and two values",
        }
    }
}

fn extreme(function: BuiltinFunction, items: &[Value], order: Ordering) -> Result<Value, String> {
    let mut best: Option<&Value> = None;
    for item in items {
        let Value::Number(number) = item else {
            return Err(format!("`{}` takes numbers, found {}", function.name(), type_name(item)));
        };
        let better = match best {
            Some(Value::Number(b)) => compare(number, b) == Some(order),
            _ => true,
        };
        if better {
            best = Some(item);
        }
    }
    best.cloned().ok_or_else(|| format!("`{}` of an empty list has no value", function.name()))
}
