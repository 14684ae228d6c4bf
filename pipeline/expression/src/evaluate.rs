//! Evaluates an expression under a scope that knows every name that is read.
//!
//! `||`, `&&`, `default` and `if` evaluate a side only if they need it. An unknown name is a fault, so that no result
//! is computed from a value that was never measured. Only `default` replaces a value that may be missing, and `== null`
//! tests whether it is.

use super::domain::ExpressionValue as _;
use super::fault::ExpressionError;
use super::functions::BuiltinFunction;
use super::name::ScopeName;
use super::operators::BinaryOperator;
use super::scope::Scope;
use super::tree::{Expr, ExpressionKind};
use serde_json::Value;

/// Returns the value, or the first fault with its position.
pub fn evaluate<N: ScopeName>(e: &Expr<N>, scope: &dyn Scope<N>) -> Result<N::Value, ExpressionError> {
    let at = |message: String| ExpressionError::new(&e.range, message);
    match &e.kind {
        ExpressionKind::Literal(value) => Ok(N::Value::known(value)),
        ExpressionKind::Reference(name) => scope.value(name).ok_or_else(|| name.unknown(&e.range)),
        ExpressionKind::List(items) => Ok(N::Value::list(all(items, scope)?)),
        ExpressionKind::Unary(operator, operand) => N::Value::unary(*operator, &evaluate(operand, scope)?).map_err(at),
        ExpressionKind::Binary(operator @ (BinaryOperator::Or | BinaryOperator::And), left, right) => {
            let first = evaluate(left, scope)?;
            // The first side determines the result, and the operator returns it from that side alone.
            if first.truth() == Some(*operator == BinaryOperator::Or) {
                return N::Value::binary(*operator, &first, &first).map_err(at);
            }
            N::Value::binary(*operator, &first, &evaluate(right, scope)?).map_err(at)
        }
        ExpressionKind::Binary(operator @ (BinaryOperator::Equal | BinaryOperator::Unequal), left, right)
            if is_null(left) || is_null(right) =>
        {
            N::Value::binary(*operator, &or_null(left, scope)?, &or_null(right, scope)?).map_err(at)
        }
        ExpressionKind::Binary(operator, left, right) => {
            N::Value::binary(*operator, &evaluate(left, scope)?, &evaluate(right, scope)?).map_err(at)
        }
        ExpressionKind::Index(base, i) => N::Value::index(&evaluate(base, scope)?, &evaluate(i, scope)?).map_err(at),
        ExpressionKind::Call(BuiltinFunction::Default, arguments) => {
            let first = or_null(&arguments[0], scope)?;
            if first.is_null() { evaluate(&arguments[1], scope) } else { Ok(first) }
        }
        ExpressionKind::Call(BuiltinFunction::If, arguments) => match evaluate(&arguments[0], scope)?.truth() {
            Some(holds) => evaluate(&arguments[if holds { 1 } else { 2 }], scope),
            None => Err(at("the condition of `if` is not a bool".to_string())),
        },
        ExpressionKind::Call(function, arguments) => N::Value::call(*function, &all(arguments, scope)?).map_err(at),
    }
}

fn all<N: ScopeName>(items: &[Expr<N>], scope: &dyn Scope<N>) -> Result<Vec<N::Value>, ExpressionError> {
    items.iter().map(|item| evaluate(item, scope)).collect()
}

/// Returns the value, or null for a name that may be missing (or a list of them) and is not known.
fn or_null<N: ScopeName>(e: &Expr<N>, scope: &dyn Scope<N>) -> Result<N::Value, ExpressionError> {
    match evaluate(e, scope) {
        Err(_) if may_be_missing(e) => Ok(N::Value::null()),
        found => found,
    }
}

fn is_null<N>(e: &Expr<N>) -> bool {
    e.as_literal().is_some_and(Value::is_null)
}

fn may_be_missing<N: ScopeName>(e: &Expr<N>) -> bool {
    match &e.kind {
        ExpressionKind::Reference(name) => name.may_be_missing(),
        ExpressionKind::List(items) => !items.is_empty() && items.iter().all(may_be_missing),
        _ => false,
    }
}
