//! Defines the types of values that may not be known yet.

use serde_json::Value;
use std::fmt;

/// The type of a value that may not be known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExprType {
    Null,
    Bool,
    Int,
    /// A number that may have a fraction.
    Float,
    String,
    /// A list whose items are all of this type.
    List(Box<ExprType>),
    /// A map with any values.
    Map,
    /// An output of a stage; nothing is computed with it.
    Artifact,
    /// Not known before the run.
    Any,
}

impl fmt::Display for ExprType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "null",
            Self::Bool => "a bool",
            Self::Int => "an int",
            Self::Float => "a float",
            Self::String => "a string",
            Self::List(_) => "a list",
            Self::Map => "a map",
            Self::Artifact => "an artifact",
            Self::Any => "any value",
        })
    }
}

impl ExprType {
    /// Returns the type of a known value.
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(_) => Self::Bool,
            Value::Number(n) if n.is_f64() => Self::Float,
            Value::Number(_) => Self::Int,
            Value::String(_) => Self::String,
            Value::Array(items) => Self::list_of(items.iter().map(Self::of)),
            Value::Object(_) => Self::Map,
        }
    }
    pub(crate) fn list_of(mut items: impl Iterator<Item = Self>) -> Self {
        let first = items.next().unwrap_or(Self::Any);
        Self::List(Box::new(items.fold(first, |a, b| {
            if a == b {
                a
            } else if a.number() && b.number() {
                Self::Float
            } else {
                Self::Any
            }
        })))
    }
    pub(crate) fn number(&self) -> bool {
        matches!(self, Self::Int | Self::Float | Self::Any)
    }
    pub(crate) fn text(&self) -> bool {
        matches!(self, Self::String | Self::Any)
    }
    pub(crate) fn bool(&self) -> bool {
        matches!(self, Self::Bool | Self::Any)
    }
    pub(crate) fn comparable(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null | Self::Any, _) | (_, Self::Null | Self::Any) => true,
            (Self::List(_), Self::List(_)) => true,
            _ => self == other || (self.number() && other.number()),
        }
    }
}
