//! Types of values that are still unknown, so that a comparison of a metric with a string fails at `check` and not
//! after hours of GPU time.
//!
//! Metrics are floats, a status is a string, the `item` of a late list can have any type. Known parts are already
//! computed literals, so only unknown operands are checked here.

use super::{BinaryOperator, BuiltinFunction, Expr, ExprError, ExprKind, ExprReference, UnaryOperator};
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
    /// An output of a stage.
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
pub fn infer(e: &Expr) -> Result<ExprType, ExprError> {
    Ok(match &e.kind {
        ExprKind::Literal(value) => ExprType::of(value),
        ExprKind::Reference(ExprReference::Metric { .. }) => ExprType::Float,
        ExprKind::Reference(ExprReference::Status { .. }) => ExprType::String,
        ExprKind::Reference(ExprReference::Artifact { .. }) => ExprType::Artifact,
        ExprKind::Reference(_) => ExprType::Any,
        ExprKind::List(items) => ExprType::list_of(items.iter().map(infer).collect::<Result<Vec<_>, _>>()?.into_iter()),
        ExprKind::Unary(operator, operand) => unary(e, *operator, &infer(operand)?)?,
        ExprKind::Binary(operator, a, b) => binary(e, *operator, &infer(a)?, &infer(b)?)?,
        ExprKind::Index(base, index) => indexed(e, infer(base)?, &infer(index)?)?,
        ExprKind::Call(function, arguments) => {
            let types = arguments.iter().map(infer).collect::<Result<Vec<_>, _>>()?;
            call(e, *function, &types)?
        }
    })
}

fn unary(e: &Expr, operator: UnaryOperator, operand: &ExprType) -> Result<ExprType, ExprError> {
    match operator {
        UnaryOperator::Not if operand.bool() => Ok(ExprType::Bool),
        UnaryOperator::Negate if operand.number() => Ok(operand.clone()),
        UnaryOperator::Not => Err(ExprError::new(&e.range, format!("`!` takes a bool, found {operand}"))),
        UnaryOperator::Negate => Err(ExprError::new(&e.range, format!("`-` takes a number, found {operand}"))),
    }
}

fn binary(e: &Expr, operator: BinaryOperator, a: &ExprType, b: &ExprType) -> Result<ExprType, ExprError> {
    let wanted = match operator {
        BinaryOperator::Or | BinaryOperator::And if a.bool() && b.bool() => return Ok(ExprType::Bool),
        BinaryOperator::Or | BinaryOperator::And => "two bools",
        BinaryOperator::Equal | BinaryOperator::Unequal if a.comparable(b) => return Ok(ExprType::Bool),
        BinaryOperator::Equal | BinaryOperator::Unequal => "two values of one type",
        BinaryOperator::Less | BinaryOperator::LessEqual | BinaryOperator::Greater | BinaryOperator::GreaterEqual => {
            if (a.number() && b.number()) || (a.text() && b.text()) {
                return Ok(ExprType::Bool);
            }
            "two numbers or two strings"
        }
        BinaryOperator::Add if a.text() && b.text() && !(a.number() && b.number()) => return Ok(ExprType::String),
        _ if a.number() && b.number() => {
            return Ok(match (a, b) {
                (ExprType::Any, _) | (_, ExprType::Any) => ExprType::Any,
                (ExprType::Int, ExprType::Int) if operator != BinaryOperator::Divide => ExprType::Int,
                _ => ExprType::Float,
            });
        }
        BinaryOperator::Add => "two numbers or two strings",
        _ => "two numbers",
    };
    Err(ExprError::new(&e.range, format!("`{}` takes {wanted}, found {a} and {b}", operator.symbol())))
}

fn indexed(e: &Expr, base: ExprType, index: &ExprType) -> Result<ExprType, ExprError> {
    match (base, index) {
        (ExprType::List(item), ExprType::Int | ExprType::Any) => Ok(*item),
        (ExprType::Map | ExprType::Any, ExprType::String | ExprType::Any) | (ExprType::Any, ExprType::Int) => {
            Ok(ExprType::Any)
        }
        (base, index) => Err(ExprError::new(&e.range, format!("{base} cannot be indexed by {index}"))),
    }
}

fn call(e: &Expr, function: BuiltinFunction, types: &[ExprType]) -> Result<ExprType, ExprError> {
    let fits = match (function, types) {
        (BuiltinFunction::Len, [ExprType::String | ExprType::List(_) | ExprType::Map | ExprType::Any]) => {
            Some(ExprType::Int)
        }
        (BuiltinFunction::Min | BuiltinFunction::Max, [ExprType::List(item)]) if item.number() => {
            Some((**item).clone())
        }
        (BuiltinFunction::Min | BuiltinFunction::Max, [ExprType::Any]) => Some(ExprType::Any),
        (BuiltinFunction::Min | BuiltinFunction::Max, all) if all.iter().all(ExprType::number) => {
            Some(if all.iter().all(|t| *t == ExprType::Int) { ExprType::Int } else { ExprType::Float })
        }
        (BuiltinFunction::Contains, [ExprType::List(_) | ExprType::Any, _]) => Some(ExprType::Bool),
        (BuiltinFunction::Contains, [ExprType::String | ExprType::Map, part]) if part.text() => Some(ExprType::Bool),
        (BuiltinFunction::StartsWith, [a, b]) if a.text() && b.text() => Some(ExprType::Bool),
        (BuiltinFunction::Default, [a, b]) => Some(match (a, b) {
            _ if a == b => a.clone(),
            (ExprType::Null, b) => b.clone(),
            _ if a.number() && b.number() => ExprType::Float,
            _ => ExprType::Any,
        }),
        (BuiltinFunction::Join, [ExprType::List(_) | ExprType::Any, separator]) if separator.text() => {
            Some(ExprType::String)
        }
        _ => None,
    };
    fits.ok_or_else(|| {
        let found: Vec<String> = types.iter().map(ToString::to_string).collect();
        ExprError::new(
            &e.range,
            format!("`{}` takes {}, found {}", function.name(), function.takes(), found.join(" and ")),
        )
    })
}
