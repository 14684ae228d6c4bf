//! Replaces known references by their values and computes all known parts; late parts stay expressions.

use super::fault::ExpressionError;
use super::functions::BuiltinFunction;
use super::infer::infer;
use super::name::ScopeName;
use super::operators::BinaryOperator;
use super::tree::{Expr, ExpressionKind};
use super::types::ExprType;
use super::value::index;
use serde_json::Value;
use std::ops::Range;

/// Replaces a reference (with its position): a term, `None` to keep it, or a fault.
pub type ReplaceFn<'a, N> = &'a mut dyn FnMut(&N, &Range<usize>) -> ReplaceResult<N>;
/// Result of a [`ReplaceFn`]: `None` keeps the reference.
pub type ReplaceResult<N> = Result<Option<ExpressionKind<N>>, ExpressionError>;

/// Replaces references and computes all known parts. Returns the first fault.
pub fn rewrite<N>(e: &Expr<N>, replace: ReplaceFn<'_, N>) -> Result<Expr<N>, ExpressionError>
where
    N: ScopeName<Value = Value>,
{
    let at = |message: String| ExpressionError::new(&e.range, message);
    let term = match &e.kind {
        ExpressionKind::Literal(_) => e.kind.clone(),
        ExpressionKind::Reference(reference) => replace(reference, &e.range)?.unwrap_or_else(|| e.kind.clone()),
        ExpressionKind::List(items) => {
            let items = all(items, replace)?;
            literals(&items).map_or(ExpressionKind::List(items), |values| ExpressionKind::Literal(Value::Array(values)))
        }
        ExpressionKind::Unary(operator, operand) => {
            let operand = rewrite(operand, replace)?;
            match operand.as_literal() {
                Some(value) => ExpressionKind::Literal(operator.apply(value).map_err(at)?),
                None => ExpressionKind::Unary(*operator, Box::new(operand)),
            }
        }
        ExpressionKind::Binary(operator, left, right) => {
            let left = rewrite(left, replace)?;
            if let Some(a) = left.as_literal().filter(|a| short_cut(*operator, a)) {
                names(right, replace)?;
                return Ok(Expr { kind: ExpressionKind::Literal(a.clone()), range: e.range.clone() });
            }
            let right = rewrite(right, replace)?;
            match (left.as_literal(), right.as_literal()) {
                (Some(a), Some(b)) => ExpressionKind::Literal(operator.apply(a, b).map_err(at)?),
                (Some(a), None) if neutral(*operator, a, &right) => right.kind,
                (None, Some(b)) if neutral(*operator, b, &left) => left.kind,
                _ => ExpressionKind::Binary(*operator, Box::new(left), Box::new(right)),
            }
        }
        ExpressionKind::Index(base, i) => {
            let (base, i) = (rewrite(base, replace)?, rewrite(i, replace)?);
            match (base.as_literal(), i.as_literal()) {
                (Some(value), Some(position)) => ExpressionKind::Literal(index(value, position).map_err(at)?),
                _ => ExpressionKind::Index(Box::new(base), Box::new(i)),
            }
        }
        ExpressionKind::Call(BuiltinFunction::Default, arguments) => {
            let first = rewrite(&arguments[0], replace)?;
            match first.as_literal() {
                Some(Value::Null) => rewrite(&arguments[1], replace)?.kind,
                Some(value) => {
                    names(&arguments[1], replace)?;
                    ExpressionKind::Literal(value.clone())
                }
                None => ExpressionKind::Call(BuiltinFunction::Default, vec![first, rewrite(&arguments[1], replace)?]),
            }
        }
        ExpressionKind::Call(BuiltinFunction::If, arguments) => {
            let condition = rewrite(&arguments[0], replace)?;
            let [then, other] = [&arguments[1], &arguments[2]];
            match condition.as_literal() {
                Some(Value::Bool(holds)) => {
                    let (chosen, unused) = if *holds { (then, other) } else { (other, then) };
                    names(unused, replace)?;
                    rewrite(chosen, replace)?.kind
                }
                _ => ExpressionKind::Call(
                    BuiltinFunction::If,
                    vec![condition, rewrite(then, replace)?, rewrite(other, replace)?],
                ),
            }
        }
        ExpressionKind::Call(function, arguments) => {
            let arguments = all(arguments, replace)?;
            literals(&arguments)
                .map_or(Ok(ExpressionKind::Call(*function, arguments)), |values| {
                    function.call(&values).map(ExpressionKind::Literal)
                })
                .map_err(at)?
        }
    };
    Ok(Expr { kind: term, range: e.range.clone() })
}

fn all<N>(items: &[Expr<N>], replace: ReplaceFn<'_, N>) -> Result<Vec<Expr<N>>, ExpressionError>
where
    N: ScopeName<Value = Value>,
{
    items.iter().map(|i| rewrite(i, replace)).collect()
}

/// Checks that branches that are never computed name existing things as well.
fn names<N: ScopeName>(e: &Expr<N>, replace: ReplaceFn<'_, N>) -> Result<(), ExpressionError> {
    let mut held = Ok(());
    e.visit(&mut |e| {
        if let (ExpressionKind::Reference(reference), true) = (&e.kind, held.is_ok()) {
            held = replace(reference, &e.range).map(|_| ());
        }
    });
    held
}

fn short_cut(operator: BinaryOperator, left: &Value) -> bool {
    matches!((operator, left), (BinaryOperator::Or, Value::Bool(true)) | (BinaryOperator::And, Value::Bool(false)))
}

/// Whether an operation is its right side (`true && x`, `false || x`), if that is a bool.
fn neutral<N: ScopeName>(operator: BinaryOperator, known: &Value, late: &Expr<N>) -> bool {
    let is_neutral = matches!(
        (operator, known),
        (BinaryOperator::And, Value::Bool(true)) | (BinaryOperator::Or, Value::Bool(false))
    );
    is_neutral && infer(late) == Ok(ExprType::Bool)
}

fn literals<N>(items: &[Expr<N>]) -> Option<Vec<Value>> {
    items.iter().map(|i| i.as_literal().cloned()).collect()
}
