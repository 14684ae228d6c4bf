//! Evaluation of an expression under a scope that knows everything it reads.
//!
//! `||`, `&&` and `default` evaluate their second side only if they need it. A metric or status that is not known is a
//! fault, so that nothing is computed from a value that was never measured; only `default` replaces it, and `== null`
//! tests for it.

use super::value::type_name;
use super::{Binary, Expression, Fault, Function, Reference, Scope, Term};
use serde_json::Value;
use std::ops::Range;

/// Returns the value, or the first fault with its place.
pub fn evaluate(e: &Expression, scope: &dyn Scope) -> Result<Value, Fault> {
    let at = |message: String| Fault::new(&e.range, message);
    match &e.term {
        Term::Literal(value) => Ok(value.clone()),
        Term::Reference(reference) => look_up(reference, &e.range, scope),
        Term::List(items) => Ok(Value::Array(items.iter().map(|i| evaluate(i, scope)).collect::<Result<_, _>>()?)),
        Term::Unary(operator, operand) => operator.apply(&evaluate(operand, scope)?).map_err(at),
        Term::Binary(operator @ (Binary::Or | Binary::And), left, right) => {
            let first = evaluate(left, scope)?;
            if first == Value::Bool(*operator == Binary::Or) {
                return Ok(first);
            }
            operator.apply(&first, &evaluate(right, scope)?).map_err(at)
        }
        Term::Binary(operator @ (Binary::Equal | Binary::Unequal), left, right) if is_null(left) || is_null(right) => {
            operator.apply(&or_null(left, scope)?, &or_null(right, scope)?).map_err(at)
        }
        Term::Binary(operator, left, right) => {
            operator.apply(&evaluate(left, scope)?, &evaluate(right, scope)?).map_err(at)
        }
        Term::Index(base, i) => index(&evaluate(base, scope)?, &evaluate(i, scope)?).map_err(at),
        Term::Call(Function::Default, arguments) => match or_null(&arguments[0], scope)? {
            Value::Null => evaluate(&arguments[1], scope),
            value => Ok(value),
        },
        Term::Call(function, arguments) => {
            let values: Vec<Value> = arguments.iter().map(|a| evaluate(a, scope)).collect::<Result<_, _>>()?;
            function.call(&values).map_err(at)
        }
    }
}

/// Returns the value, or null for a metric or status (or a list of them) that is not known.
fn or_null(e: &Expression, scope: &dyn Scope) -> Result<Value, Fault> {
    match evaluate(e, scope) {
        Err(_) if is_reported(e) => Ok(Value::Null),
        found => found,
    }
}

fn is_null(e: &Expression) -> bool {
    e.as_literal().is_some_and(Value::is_null)
}

/// Whether an expression reads a metric or status, known only after a stage has ended.
fn is_reported(e: &Expression) -> bool {
    match &e.term {
        Term::Reference(reference) => matches!(reference, Reference::Metric { .. } | Reference::Status { .. }),
        Term::List(items) => !items.is_empty() && items.iter().all(is_reported),
        _ => false,
    }
}

fn look_up(reference: &Reference, range: &Range<usize>, scope: &dyn Scope) -> Result<Value, Fault> {
    let value = match reference {
        Reference::Param(name) => scope.param(name),
        Reference::Matrix(axis) => scope.matrix(axis),
        Reference::Item => scope.item(),
        Reference::Metric { stage, name, of } => scope.metric(stage, name, *of),
        Reference::Status { stage } => scope.status(stage),
        Reference::Input(_) | Reference::Output(_) | Reference::Artifact { .. } => None,
    };
    value.ok_or_else(|| {
        let fault = Fault::new(range, format!("`{reference}` is not known here"));
        match reference {
            Reference::Metric { .. } => {
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
