//! Evaluation of an expression under a scope that knows everything it reads.
//!
//! `||`, `&&` and `default` evaluate their second side only if they need it. A metric or status that is not known is a
//! fault, so that nothing is computed from a value that was never measured; only `default` replaces it, and `== null`
//! tests for it.

use super::value::type_name;
use super::{BinaryOperator, BuiltinFunction, Expr, ExprError, ExprKind, ExprReference, ExprScope};
use serde_json::Value;
use std::ops::Range;

/// Returns the value, or the first fault with its place.
pub fn evaluate(e: &Expr, scope: &dyn ExprScope) -> Result<Value, ExprError> {
    let at = |message: String| ExprError::new(&e.range, message);
    match &e.kind {
        ExprKind::Literal(value) => Ok(value.clone()),
        ExprKind::Reference(reference) => look_up(reference, &e.range, scope),
        ExprKind::List(items) => Ok(Value::Array(items.iter().map(|i| evaluate(i, scope)).collect::<Result<_, _>>()?)),
        ExprKind::Unary(operator, operand) => operator.apply(&evaluate(operand, scope)?).map_err(at),
        ExprKind::Binary(operator @ (BinaryOperator::Or | BinaryOperator::And), left, right) => {
            let first = evaluate(left, scope)?;
            if first == Value::Bool(*operator == BinaryOperator::Or) {
                return Ok(first);
            }
            operator.apply(&first, &evaluate(right, scope)?).map_err(at)
        }
        ExprKind::Binary(operator @ (BinaryOperator::Equal | BinaryOperator::Unequal), left, right)
            if is_null(left) || is_null(right) =>
        {
            operator.apply(&or_null(left, scope)?, &or_null(right, scope)?).map_err(at)
        }
        ExprKind::Binary(operator, left, right) => {
            operator.apply(&evaluate(left, scope)?, &evaluate(right, scope)?).map_err(at)
        }
        ExprKind::Index(base, i) => index(&evaluate(base, scope)?, &evaluate(i, scope)?).map_err(at),
        ExprKind::Call(BuiltinFunction::Default, arguments) => match or_null(&arguments[0], scope)? {
            Value::Null => evaluate(&arguments[1], scope),
            value => Ok(value),
        },
        ExprKind::Call(function, arguments) => {
            let values: Vec<Value> = arguments.iter().map(|a| evaluate(a, scope)).collect::<Result<_, _>>()?;
            function.call(&values).map_err(at)
        }
    }
}

/// Returns the value, or null for a metric or status (or a list of them) that is not known.
fn or_null(e: &Expr, scope: &dyn ExprScope) -> Result<Value, ExprError> {
    match evaluate(e, scope) {
        Err(_) if is_reported(e) => Ok(Value::Null),
        found => found,
    }
}

fn is_null(e: &Expr) -> bool {
    e.as_literal().is_some_and(Value::is_null)
}

/// Whether an expression reads a metric or status, known only after a stage has ended.
fn is_reported(e: &Expr) -> bool {
    match &e.kind {
        ExprKind::Reference(reference) => {
            matches!(reference, ExprReference::Metric { .. } | ExprReference::Status { .. })
        }
        ExprKind::List(items) => !items.is_empty() && items.iter().all(is_reported),
        _ => false,
    }
}

fn look_up(reference: &ExprReference, range: &Range<usize>, scope: &dyn ExprScope) -> Result<Value, ExprError> {
    let value = match reference {
        ExprReference::Param(name) => scope.param(name),
        ExprReference::Matrix(axis) => scope.matrix(axis),
        ExprReference::Item => scope.item(),
        ExprReference::Metric { stage, name, of } => scope.metric(stage, name, *of),
        ExprReference::Status { stage } => scope.status(stage),
        ExprReference::Input(_) | ExprReference::Output(_) | ExprReference::Artifact { .. } => None,
    };
    value.ok_or_else(|| {
        let fault = ExprError::new(range, format!("`{reference}` is not known here"));
        match reference {
            ExprReference::Metric { .. } => {
                fault.help("the stage did not report this metric; `default(…, 0)` gives a value for that case")
            }
            _ => fault,
        }
    })
}

/// Indexes `list[int]` from 0, or `map["key"]`.
pub fn index(base: &Value, index: &Value) -> Result<Value, String> {
    match (base, index) {
        (Value::Array(items), Value::Number(n)) => {
            let position = n.as_u64().and_then(|i| usize::try_from(i).ok());
            let found = position.and_then(|i| items.get(i));
            found
                .cloned()
                .ok_or_else(|| format!("index {n} is outside of this list of {} (the first is 0)", items.len()))
        }
        (Value::Object(map), Value::String(key)) => map.get(key).cloned().ok_or_else(|| {
            let keys: Vec<&str> = map.keys().map(String::as_str).collect();
            format!("this map has no key `{key}`; it has {}", keys.join(", "))
        }),
        _ => Err(format!("{} cannot be indexed by {}", type_name(base), type_name(index))),
    }
}
