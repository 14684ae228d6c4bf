//! Infers types, so that a comparison of a metric with a string fails at `check` and not after hours of GPU time.
//!
//! Known parts are already computed literals, so only unknown operands are checked here. In a dialect of numbers alone,
//! every type is a float.

use super::fault::ExpressionError;
use super::functions::BuiltinFunction;
use super::name::ScopeName;
use super::operators::{BinaryOperator, UnaryOperator};
use super::tree::{Expr, ExpressionKind};
use super::types::ExprType;

/// Infers the type of an expression as far as it is known; returns the first mismatch as the fault.
pub fn infer<N: ScopeName>(e: &Expr<N>) -> Result<ExprType, ExpressionError> {
    if N::DIALECT.numbers {
        return Ok(ExprType::Float);
    }
    Ok(match &e.kind {
        ExpressionKind::Literal(value) => ExprType::of(value),
        ExpressionKind::Reference(name) => name.type_of(),
        ExpressionKind::List(items) => {
            ExprType::list_of(items.iter().map(infer).collect::<Result<Vec<_>, _>>()?.into_iter())
        }
        ExpressionKind::Unary(operator, operand) => unary(e, *operator, &infer(operand)?)?,
        ExpressionKind::Binary(operator, a, b) => binary(e, *operator, &infer(a)?, &infer(b)?)?,
        ExpressionKind::Index(base, index) => indexed(e, infer(base)?, &infer(index)?)?,
        ExpressionKind::Call(function, arguments) => {
            let types = arguments.iter().map(infer).collect::<Result<Vec<_>, _>>()?;
            call(e, *function, &types)?
        }
    })
}

fn unary<N>(e: &Expr<N>, operator: UnaryOperator, operand: &ExprType) -> Result<ExprType, ExpressionError> {
    match operator {
        UnaryOperator::Not if operand.bool() => Ok(ExprType::Bool),
        UnaryOperator::Negate if operand.number() => Ok(operand.clone()),
        UnaryOperator::Not => Err(ExpressionError::new(&e.range, format!("`!` takes a bool, found {operand}"))),
        UnaryOperator::Negate => Err(ExpressionError::new(&e.range, format!("`-` takes a number, found {operand}"))),
    }
}

fn binary<N>(e: &Expr<N>, operator: BinaryOperator, a: &ExprType, b: &ExprType) -> Result<ExprType, ExpressionError> {
    let expected = match operator {
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
    Err(ExpressionError::new(&e.range, format!("`{}` takes {expected}, found {a} and {b}", operator.symbol())))
}

fn indexed<N>(e: &Expr<N>, base: ExprType, index: &ExprType) -> Result<ExprType, ExpressionError> {
    match (base, index) {
        (ExprType::List(item), ExprType::Int | ExprType::Any) => Ok(*item),
        (ExprType::Map | ExprType::Any, ExprType::String | ExprType::Any) | (ExprType::Any, ExprType::Int) => {
            Ok(ExprType::Any)
        }
        (base, index) => Err(ExpressionError::new(&e.range, format!("{base} cannot be indexed by {index}"))),
    }
}

fn call<N>(e: &Expr<N>, function: BuiltinFunction, types: &[ExprType]) -> Result<ExprType, ExpressionError> {
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
        (BuiltinFunction::Abs, [a]) if a.number() => Some(a.clone()),
        (BuiltinFunction::Sqrt, [a]) if a.number() => Some(ExprType::Float),
        (BuiltinFunction::If, [condition, a, b]) if condition.bool() => Some(match (a, b) {
            _ if a == b => a.clone(),
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
        ExpressionError::new(
            &e.range,
            format!("`{}` takes {}, found {}", function.name(), function.takes(), found.join(" and ")),
        )
    })
}
