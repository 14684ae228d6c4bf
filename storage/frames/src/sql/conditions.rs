//! Separates the conditions of joins: polars joins by equalities, and other conditions select among the joined rows.

use sqlparser::ast::{BinaryOperator, Expr, JoinConstraint, JoinOperator, Select};
use trainyard_core::{Error, Result};

/// Moves the conditions of inner joins that are no equalities of two tables to the WHERE of the SELECT, where they mean
/// the same.
///
/// Errors: invalid (such a condition in another join, or before one that keeps unmatched rows of its right table).
pub fn move_conditions(select: &mut Select) -> Result<()> {
    let mut moved = Vec::new();
    for from in &mut select.from {
        let mut moved_here = Vec::new();
        for join in &mut from.joins {
            if keeps_right(&join.join_operator) && !moved_here.is_empty() {
                return Err(unsupported(&moved_here[0], "before a right or full join"));
            }
            let operator = &mut join.join_operator;
            let inner = matches!(operator, JoinOperator::Join(_) | JoinOperator::Inner(_));
            let Some(JoinConstraint::On(condition)) = constraint(operator) else { continue };
            let (equalities, others): (Vec<Expr>, Vec<Expr>) =
                conjuncts(condition).into_iter().partition(is_equality_of_tables);
            match others.first() {
                None => continue,
                Some(first) if !inner => return Err(unsupported(first, "in a join that is not inner")),
                Some(_) => moved_here.extend(others),
            }
            *operator = match joined(equalities) {
                Some(condition) => JoinOperator::Inner(JoinConstraint::On(condition)),
                None => JoinOperator::CrossJoin(JoinConstraint::None),
            };
        }
        moved.extend(moved_here);
    }
    if !moved.is_empty() {
        select.selection = joined(select.selection.take().into_iter().chain(moved).map(nested).collect());
    }
    Ok(())
}

fn unsupported(condition: &Expr, place: &str) -> Error {
    Error::invalid(format!("the join condition `{condition}` is not supported {place}: only `a.x = b.y` is"))
        .help("filter the table in a subquery: `left join (select … from b where …) b on a.x = b.x`")
}

fn keeps_right(operator: &JoinOperator) -> bool {
    matches!(operator, JoinOperator::Right(_) | JoinOperator::RightOuter(_) | JoinOperator::FullOuter(_))
}

fn constraint(operator: &JoinOperator) -> Option<&JoinConstraint> {
    use JoinOperator as J;
    match operator {
        J::Join(on) | J::Inner(on) | J::Left(on) | J::LeftOuter(on) | J::Right(on) | J::RightOuter(on) => Some(on),
        J::FullOuter(on) | J::Semi(on) | J::LeftSemi(on) | J::RightSemi(on) => Some(on),
        J::Anti(on) | J::LeftAnti(on) | J::RightAnti(on) => Some(on),
        _ => None,
    }
}

/// Returns the conditions that `and` connects.
fn conjuncts(condition: &Expr) -> Vec<Expr> {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => [conjuncts(left), conjuncts(right)].concat(),
        Expr::Nested(inner) => match inner.as_ref() {
            Expr::BinaryOp { op: BinaryOperator::And, .. } => conjuncts(inner),
            _ => vec![inner.as_ref().clone()],
        },
        other => vec![other.clone()],
    }
}

fn joined(conditions: Vec<Expr>) -> Option<Expr> {
    conditions.into_iter().reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    })
}

/// Encloses a condition, which may contain `or`.
fn nested(condition: Expr) -> Expr {
    Expr::Nested(Box::new(condition))
}

/// Whether a condition is an equality of columns, not both of the same table.
fn is_equality_of_tables(condition: &Expr) -> bool {
    let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = condition else { return false };
    match (left.as_ref(), right.as_ref()) {
        (Expr::CompoundIdentifier(left), Expr::CompoundIdentifier(right)) => {
            left.first().map(|name| &name.value) != right.first().map(|name| &name.value)
        }
        (Expr::Value(_), _) | (_, Expr::Value(_)) => false,
        _ => true,
    }
}
