//! Replaces known references and computes with them; late parts stay expressions.

use super::fault::Fault;
use super::functions::Function;
use super::infer::infer;
use super::name::Name;
use super::operators::Binary;
use super::tree::{Expression, Term};
use super::types::Type;
use super::value::index;
use serde_json::Value;
use std::ops::Range;

/// Replaces a reference (with its place): a term, `None` to keep it, or a fault.
pub type Replace<'a, N> = &'a mut dyn FnMut(&N, &Range<usize>) -> Replaced<N>;
/// Result of a [`Replace`]: `None` keeps the reference.
pub type Replaced<N> = Result<Option<Term<N>>, Fault>;

/// Replaces references and computes all known parts. Returns the first fault.
pub fn rewrite<N>(e: &Expression<N>, replace: Replace<'_, N>) -> Result<Expression<N>, Fault>
where
    N: Name<Value = Value>,
{
    let at = |message: String| Fault::new(&e.range, message);
    let term = match &e.term {
        Term::Literal(_) => e.term.clone(),
        Term::Reference(reference) => replace(reference, &e.range)?.unwrap_or_else(|| e.term.clone()),
        Term::List(items) => {
            let items = all(items, replace)?;
            literals(&items).map_or(Term::List(items), |values| Term::Literal(Value::Array(values)))
        }
        Term::Unary(operator, operand) => {
            let operand = rewrite(operand, replace)?;
            match operand.as_literal() {
                Some(value) => Term::Literal(operator.apply(value).map_err(at)?),
                None => Term::Unary(*operator, Box::new(operand)),
            }
        }
        Term::Binary(operator, left, right) => {
            let left = rewrite(left, replace)?;
            if let Some(a) = left.as_literal().filter(|a| short_cut(*operator, a)) {
                names(right, replace)?;
                return Ok(Expression { term: Term::Literal(a.clone()), range: e.range.clone() });
            }
            let right = rewrite(right, replace)?;
            match (left.as_literal(), right.as_literal()) {
                (Some(a), Some(b)) => Term::Literal(operator.apply(a, b).map_err(at)?),
                (Some(a), None) if neutral(*operator, a, &right) => right.term,
                (None, Some(b)) if neutral(*operator, b, &left) => left.term,
                _ => Term::Binary(*operator, Box::new(left), Box::new(right)),
            }
        }
        Term::Index(base, i) => {
            let (base, i) = (rewrite(base, replace)?, rewrite(i, replace)?);
            match (base.as_literal(), i.as_literal()) {
                (Some(value), Some(position)) => Term::Literal(index(value, position).map_err(at)?),
                _ => Term::Index(Box::new(base), Box::new(i)),
            }
        }
        Term::Call(Function::Default, arguments) => {
            let first = rewrite(&arguments[0], replace)?;
            match first.as_literal() {
                Some(Value::Null) => rewrite(&arguments[1], replace)?.term,
                Some(value) => {
                    names(&arguments[1], replace)?;
                    Term::Literal(value.clone())
                }
                None => Term::Call(Function::Default, vec![first, rewrite(&arguments[1], replace)?]),
            }
        }
        Term::Call(Function::If, arguments) => {
            let condition = rewrite(&arguments[0], replace)?;
            let [then, other] = [&arguments[1], &arguments[2]];
            match condition.as_literal() {
                Some(Value::Bool(holds)) => {
                    let (chosen, left_out) = if *holds { (then, other) } else { (other, then) };
                    names(left_out, replace)?;
                    rewrite(chosen, replace)?.term
                }
                _ => Term::Call(Function::If, vec![condition, rewrite(then, replace)?, rewrite(other, replace)?]),
            }
        }
        Term::Call(function, arguments) => {
            let arguments = all(arguments, replace)?;
            literals(&arguments)
                .map_or(Ok(Term::Call(*function, arguments)), |values| function.call(&values).map(Term::Literal))
                .map_err(at)?
        }
    };
    Ok(Expression { term, range: e.range.clone() })
}

fn all<N>(items: &[Expression<N>], replace: Replace<'_, N>) -> Result<Vec<Expression<N>>, Fault>
where
    N: Name<Value = Value>,
{
    items.iter().map(|i| rewrite(i, replace)).collect()
}

/// Checks that branches that are never computed name existing things as well.
fn names<N: Name>(e: &Expression<N>, replace: Replace<'_, N>) -> Result<(), Fault> {
    let mut held = Ok(());
    e.visit(&mut |e| {
        if let (Term::Reference(reference), true) = (&e.term, held.is_ok()) {
            held = replace(reference, &e.range).map(|_| ());
        }
    });
    held
}

fn short_cut(operator: Binary, left: &Value) -> bool {
    matches!((operator, left), (Binary::Or, Value::Bool(true)) | (Binary::And, Value::Bool(false)))
}

/// Whether an operation is its right side (`true && x`, `false || x`), if that is a bool.
fn neutral<N: Name>(operator: Binary, known: &Value, late: &Expression<N>) -> bool {
    let says_nothing = matches!((operator, known), (Binary::And, Value::Bool(true)) | (Binary::Or, Value::Bool(false)));
    says_nothing && infer(late) == Ok(Type::Bool)
}

fn literals<N>(items: &[Expression<N>]) -> Option<Vec<Value>> {
    items.iter().map(|i| i.as_literal().cloned()).collect()
}
