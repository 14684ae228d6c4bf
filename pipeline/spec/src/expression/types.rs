//! Types of values that are still unknown, so that a comparison of a metric with a string fails at `check` and not
//! after hours of GPU time.
//!
//! Metrics are floats, a status is a string, the `item` of a late list can have any type. Known parts are already
//! computed literals, so only unknown operands are checked here.

use super::{Binary, Expression, Fault, Function, Reference, Term, Unary};
use serde_json::Value;
use std::fmt;

/// The type of a value that may not be known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Type {
    Null,
    Bool,
    Int,
    /// A number that may have a fraction.
    Float,
    String,
    /// A list whose items are all of this type.
    List(Box<Type>),
    /// A map with any values.
    Map,
    /// An output of a stage.
    Artifact,
    /// Not known before the run.
    Any,
}

impl fmt::Display for Type {
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

impl Type {
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
    fn list_of(mut items: impl Iterator<Item = Self>) -> Self {
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
    fn number(&self) -> bool {
        matches!(self, Self::Int | Self::Float | Self::Any)
    }
    fn text(&self) -> bool {
        matches!(self, Self::String | Self::Any)
    }
    fn bool(&self) -> bool {
        matches!(self, Self::Bool | Self::Any)
    }
    fn comparable(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null | Self::Any, _) | (_, Self::Null | Self::Any) => true,
            (Self::List(_), Self::List(_)) => true,
            _ => self == other || (self.number() && other.number()),
        }
    }
}

/// Infers the type of an expression as far as it is known; returns the first mismatch as the fault.
pub fn infer(e: &Expression) -> Result<Type, Fault> {
    Ok(match &e.term {
        Term::Literal(value) => Type::of(value),
        Term::Reference(Reference::Metric { .. }) => Type::Float,
        Term::Reference(Reference::Status { .. }) => Type::String,
        Term::Reference(Reference::Artifact { .. }) => Type::Artifact,
        Term::Reference(_) => Type::Any,
        Term::List(items) => Type::list_of(items.iter().map(infer).collect::<Result<Vec<_>, _>>()?.into_iter()),
        Term::Unary(operator, operand) => unary(e, *operator, &infer(operand)?)?,
        Term::Binary(operator, a, b) => binary(e, *operator, &infer(a)?, &infer(b)?)?,
        Term::Index(base, index) => indexed(e, infer(base)?, &infer(index)?)?,
        Term::Call(function, arguments) => {
            let types = arguments.iter().map(infer).collect::<Result<Vec<_>, _>>()?;
            call(e, *function, &types)?
        }
    })
}

fn unary(e: &Expression, operator: Unary, operand: &Type) -> Result<Type, Fault> {
    match operator {
        Unary::Not if operand.bool() => Ok(Type::Bool),
        Unary::Negate if operand.number() => Ok(operand.clone()),
        Unary::Not => Err(Fault::new(&e.range, format!("`!` takes a bool, found {operand}"))),
        Unary::Negate => Err(Fault::new(&e.range, format!("`-` takes a number, found {operand}"))),
    }
}

fn binary(e: &Expression, operator: Binary, a: &Type, b: &Type) -> Result<Type, Fault> {
    let wanted = match operator {
        Binary::Or | Binary::And if a.bool() && b.bool() => return Ok(Type::Bool),
        Binary::Or | Binary::And => "two bools",
        Binary::Equal | Binary::Unequal if a.comparable(b) => return Ok(Type::Bool),
        Binary::Equal | Binary::Unequal => "two values of one type",
        Binary::Less | Binary::LessEqual | Binary::Greater | Binary::GreaterEqual => {
            if (a.number() && b.number()) || (a.text() && b.text()) {
                return Ok(Type::Bool);
            }
            "two numbers or two strings"
        }
        Binary::Add if a.text() && b.text() && !(a.number() && b.number()) => return Ok(Type::String),
        _ if a.number() && b.number() => {
            return Ok(match (a, b) {
                (Type::Any, _) | (_, Type::Any) => Type::Any,
                (Type::Int, Type::Int) if operator != Binary::Divide => Type::Int,
                _ => Type::Float,
            });
        }
        Binary::Add => "two numbers or two strings",
        _ => "two numbers",
    };
    Err(Fault::new(&e.range, format!("`{}` takes {wanted}, found {a} and {b}", operator.symbol())))
}

fn indexed(e: &Expression, base: Type, index: &Type) -> Result<Type, Fault> {
    match (base, index) {
        (Type::List(item), Type::Int | Type::Any) => Ok(*item),
        (Type::Map | Type::Any, Type::String | Type::Any) | (Type::Any, Type::Int) => Ok(Type::Any),
        (base, index) => Err(Fault::new(&e.range, format!("{base} cannot be indexed by {index}"))),
    }
}

fn call(e: &Expression, function: Function, types: &[Type]) -> Result<Type, Fault> {
    let fits = match (function, types) {
        (Function::Len, [Type::String | Type::List(_) | Type::Map | Type::Any]) => Some(Type::Int),
        (Function::Min | Function::Max, [Type::List(item)]) if item.number() => Some((**item).clone()),
        (Function::Min | Function::Max, [Type::Any]) => Some(Type::Any),
        (Function::Min | Function::Max, all) if all.iter().all(Type::number) => {
            Some(if all.iter().all(|t| *t == Type::Int) { Type::Int } else { Type::Float })
        }
        (Function::Contains, [Type::List(_) | Type::Any, _]) => Some(Type::Bool),
        (Function::Contains, [Type::String | Type::Map, part]) if part.text() => Some(Type::Bool),
        (Function::StartsWith, [a, b]) if a.text() && b.text() => Some(Type::Bool),
        (Function::Default, [a, b]) => Some(match (a, b) {
            _ if a == b => a.clone(),
            (Type::Null, b) => b.clone(),
            _ if a.number() && b.number() => Type::Float,
            _ => Type::Any,
        }),
        (Function::Join, [Type::List(_) | Type::Any, separator]) if separator.text() => Some(Type::String),
        _ => None,
    };
    fits.ok_or_else(|| {
        let found: Vec<String> = types.iter().map(ToString::to_string).collect();
        Fault::new(&e.range, format!("`{}` takes {}, found {}", function.name(), function.takes(), found.join(" and ")))
    })
}
