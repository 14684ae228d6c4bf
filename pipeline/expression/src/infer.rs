//! Inference of types, so that a comparison of a metric with a string fails at `check` and not after hours of GPU time.
//!
//! Known parts are already computed literals, so only unknown operands are checked here. With numbers alone, every type
//! is a float.

use super::fault::Fault;
use super::functions::Function;
use super::name::Name;
use super::operators::{Binary, Unary};
use super::tree::{Expression, Term};
use super::types::Type;

/// Infers the type of an expression as far as it is known; returns the first mismatch as the fault.
pub fn infer<N: Name>(e: &Expression<N>) -> Result<Type, Fault> {
    if N::DIALECT.numbers {
        return Ok(Type::Float);
    }
    Ok(match &e.term {
        Term::Literal(value) => Type::of(value),
        Term::Reference(name) => name.type_of(),
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

fn unary<N>(e: &Expression<N>, operator: Unary, operand: &Type) -> Result<Type, Fault> {
    match operator {
        Unary::Not if operand.bool() => Ok(Type::Bool),
        Unary::Negate if operand.number() => Ok(operand.clone()),
        Unary::Not => Err(Fault::new(&e.range, format!("`!` takes a bool, found {operand}"))),
        Unary::Negate => Err(Fault::new(&e.range, format!("`-` takes a number, found {operand}"))),
    }
}

fn binary<N>(e: &Expression<N>, operator: Binary, a: &Type, b: &Type) -> Result<Type, Fault> {
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

fn indexed<N>(e: &Expression<N>, base: Type, index: &Type) -> Result<Type, Fault> {
    match (base, index) {
        (Type::List(item), Type::Int | Type::Any) => Ok(*item),
        (Type::Map | Type::Any, Type::String | Type::Any) | (Type::Any, Type::Int) => Ok(Type::Any),
        (base, index) => Err(Fault::new(&e.range, format!("{base} cannot be indexed by {index}"))),
    }
}

fn call<N>(e: &Expression<N>, function: Function, types: &[Type]) -> Result<Type, Fault> {
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
        (Function::Abs, [a]) if a.number() => Some(a.clone()),
        (Function::Sqrt, [a]) if a.number() => Some(Type::Float),
        (Function::If, [condition, a, b]) if condition.bool() => Some(match (a, b) {
            _ if a == b => a.clone(),
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
