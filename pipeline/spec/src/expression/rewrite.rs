//! Replaces known references and computes with them; late parts stay expressions.

use super::evaluate::index;
use super::types::{ExprType, infer};
use super::{BinaryOperator, BuiltinFunction, Expr, ExprError, ExprKind, ExprReference};
use serde_json::Value;
use std::ops::Range;

/// Replaces a reference (with its place): a term, `None` to keep it, or a fault.
pub type ReplaceFn<'a> = &'a mut dyn FnMut(&ExprReference, &Range<usize>) -> ReplaceResult;
/// Result of a [`ReplaceFn`]: `None` keeps the reference.
pub type ReplaceResult = Result<Option<ExprKind>, ExprError>;

/// Replaces references and computes all known parts.
pub fn rewrite(e: &Expr, replace: ReplaceFn<'_>) -> Result<Expr, ExprError> {
    let at = |message: String| ExprError::new(&e.range, message);
    let all = |items: &[Expr], replace: ReplaceFn<'_>| {
        items.iter().map(|i| rewrite(i, replace)).collect::<Result<Vec<_>, _>>()
    };
    let term = match &e.kind {
        ExprKind::Literal(_) => e.kind.clone(),
        ExprKind::Reference(reference) => replace(reference, &e.range)?.unwrap_or_else(|| e.kind.clone()),
        ExprKind::List(items) => {
            let items = all(items, replace)?;
            literals(&items).map_or(ExprKind::List(items), |values| ExprKind::Literal(Value::Array(values)))
        }
        ExprKind::Unary(operator, operand) => {
            let operand = rewrite(operand, replace)?;
            match operand.as_literal() {
                Some(value) => ExprKind::Literal(operator.apply(value).map_err(at)?),
                None => ExprKind::Unary(*operator, Box::new(operand)),
            }
        }
        ExprKind::Binary(operator, left, right) => {
            let left = rewrite(left, replace)?;
            if let Some(a) = left.as_literal().filter(|a| short_cut(*operator, a)) {
                names(right, replace)?;
                return Ok(Expr { kind: ExprKind::Literal(a.clone()), range: e.range.clone() });
            }
            let right = rewrite(right, replace)?;
            match (left.as_literal(), right.as_literal()) {
                (Some(a), Some(b)) => ExprKind::Literal(operator.apply(a, b).map_err(at)?),
                (Some(a), None) if neutral(*operator, a, &right) => right.kind,
                (None, Some(b)) if neutral(*operator, b, &left) => left.kind,
                _ => ExprKind::Binary(*operator, Box::new(left), Box::new(right)),
            }
        }
        ExprKind::Index(base, i) => {
            let (base, i) = (rewrite(base, replace)?, rewrite(i, replace)?);
            match (base.as_literal(), i.as_literal()) {
                (Some(value), Some(position)) => ExprKind::Literal(index(value, position).map_err(at)?),
                _ => ExprKind::Index(Box::new(base), Box::new(i)),
            }
        }
        ExprKind::Call(BuiltinFunction::Default, arguments) => {
            let first = rewrite(&arguments[0], replace)?;
            match first.as_literal() {
                Some(Value::Null) => rewrite(&arguments[1], replace)?.kind,
                Some(value) => {
                    names(&arguments[1], replace)?;
                    ExprKind::Literal(value.clone())
                }
                None => ExprKind::Call(BuiltinFunction::Default, vec![first, rewrite(&arguments[1], replace)?]),
            }
        }
        ExprKind::Call(function, arguments) => {
            let arguments = all(arguments, replace)?;
            literals(&arguments)
                .map_or(Ok(ExprKind::Call(*function, arguments)), |values| {
                    function.call(&values).map(ExprKind::Literal)
                })
                .map_err(at)?
        }
    };
    Ok(Expr { kind: term, range: e.range.clone() })
}

/// Checks that branches that are never computed name existing things as well.
fn names(e: &Expr, replace: ReplaceFn<'_>) -> Result<(), ExprError> {
    let mut held = Ok(());
    e.visit(&mut |e| {
        if let (ExprKind::Reference(reference), true) = (&e.kind, held.is_ok()) {
            held = replace(reference, &e.range).map(|_| ());
        }
    });
    held
}

fn short_cut(operator: BinaryOperator, left: &Value) -> bool {
    matches!((operator, left), (BinaryOperator::Or, Value::Bool(true)) | (BinaryOperator::And, Value::Bool(false)))
}

/// Whether an operation is its right side (`true && x`, `false || x`), if that is a bool.
fn neutral(operator: BinaryOperator, known: &Value, late: &Expr) -> bool {
    let says_nothing = matches!(
        (operator, known),
        (BinaryOperator::And, Value::Bool(true)) | (BinaryOperator::Or, Value::Bool(false))
    );
    says_nothing && infer(late) == Ok(ExprType::Bool)
}

fn literals(items: &[Expr]) -> Option<Vec<Value>> {
    items.iter().map(|i| i.as_literal().cloned()).collect()
}
