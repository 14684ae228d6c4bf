//! Translates filter expressions for SQLite into polars expressions of the same values.
//!
//! Returns `None` for everything whose values could differ. Types are static here: columns have one, and an operator
//! between text and numbers, which SQLite converts by the affinity of columns, is left to SQLite. Integers are computed
//! with 64 bits where the values of these rows cannot overflow; SQLite continues with floats.
//!
//! The text that SQLite reads is the printed tree, and its precedences are not those of the parser. So a comparison is
//! translated as the operand of another operator only in parentheses.

mod calls;
mod columns;
mod literal;
mod numbers;
mod texts;
mod value;

pub(crate) use columns::TranslationColumns;
pub(crate) use value::{Kind, TypedExpr};

use polars::prelude::{DataType, Expr, NULL, lit, when};
use sqlparser::ast::{BinaryOperator, CaseWhen, Expr as Sql, UnaryOperator, ValueWithSpan};
use value::truth;

/// Lists of at most this many items are compared item by item.
const SHORT_LIST: usize = 4;

/// Translates a condition over flat columns.
pub(crate) fn translate(condition: &Sql, columns: &mut TranslationColumns<'_>) -> Option<Expr> {
    Translator { columns }.condition(condition)
}

/// Translates a value over flat columns.
pub(crate) fn translate_value(value: &Sql, columns: &mut TranslationColumns<'_>) -> Option<TypedExpr> {
    Translator { columns }.value(value)
}

struct Translator<'a, 'b> {
    columns: &'a mut TranslationColumns<'b>,
}

impl Translator<'_, '_> {
    /// Translates what is true, false or null.
    fn condition(&mut self, sql: &Sql) -> Option<Expr> {
        if is_comparison(sql) {
            return self.comparison(sql);
        }
        let value = self.operand(sql)?;
        match value.kind {
            Kind::Bool => Some(value.expr),
            Kind::Null => Some(lit(NULL).cast(DataType::Boolean)),
            _ => None,
        }
    }

    fn comparison(&mut self, sql: &Sql) -> Option<Expr> {
        match sql {
            Sql::BinaryOp { left, op: BinaryOperator::And, right } => {
                Some(self.condition(left)?.and(self.condition(right)?))
            }
            Sql::BinaryOp { left, op: BinaryOperator::Or, right } => {
                Some(self.condition(left)?.or(self.condition(right)?))
            }
            Sql::UnaryOp { op: UnaryOperator::Not, expr } => Some(self.condition(expr)?.not()),
            Sql::BinaryOp { left, op, right } => self.operand(left)?.compare(op, self.operand(right)?),
            Sql::IsNull(inner) => Some(self.operand(inner)?.expr.is_null()),
            Sql::IsNotNull(inner) => Some(self.operand(inner)?.expr.is_not_null()),
            Sql::IsTrue(inner) => Some(self.boolean(inner)?.eq_missing(lit(true))),
            Sql::IsNotTrue(inner) => Some(self.boolean(inner)?.neq_missing(lit(true))),
            Sql::IsFalse(inner) => Some(self.boolean(inner)?.eq_missing(lit(false))),
            Sql::IsNotFalse(inner) => Some(self.boolean(inner)?.neq_missing(lit(false))),
            Sql::IsDistinctFrom(left, right) => {
                let (left, right) = self.operand(left)?.aligned(self.operand(right)?)?;
                Some(left.neq_missing(right))
            }
            Sql::IsNotDistinctFrom(left, right) => {
                let (left, right) = self.operand(left)?.aligned(self.operand(right)?)?;
                Some(left.eq_missing(right))
            }
            Sql::Between { expr, negated, low, high } => {
                let value = self.operand(expr)?;
                let above = value.clone().compare(&BinaryOperator::GtEq, self.operand(low)?)?;
                let below = value.compare(&BinaryOperator::LtEq, self.operand(high)?)?;
                Some(negate(above.and(below), *negated))
            }
            Sql::InList { expr, list, negated } => Some(negate(self.in_list(expr, list)?, *negated)),
            Sql::Like { negated, any: false, expr, pattern, escape_char: None } => {
                Some(negate(self.like(expr, pattern)?, *negated))
            }
            _ => None,
        }
    }

    fn boolean(&mut self, sql: &Sql) -> Option<Expr> {
        let value = self.operand(sql)?;
        (value.kind == Kind::Bool).then_some(value.expr)
    }

    /// Translates a value, or a condition as a value.
    fn value(&mut self, sql: &Sql) -> Option<TypedExpr> {
        if is_comparison(sql) { self.comparison(sql).map(truth) } else { self.operand(sql) }
    }

    /// Translates a value: what binds closer than a comparison.
    fn operand(&mut self, sql: &Sql) -> Option<TypedExpr> {
        match sql {
            Sql::Nested(inner) if is_comparison(inner) => self.comparison(inner).map(truth),
            Sql::Nested(inner) => self.operand(inner),
            Sql::Identifier(name) => self.columns.column(&name.value),
            Sql::Value(ValueWithSpan { value, .. }) => literal::of(value),
            Sql::UnaryOp { op: UnaryOperator::Minus, expr } => self.operand(expr)?.negated(),
            Sql::BinaryOp { left, op, right } => self.operand(left)?.computed(op, self.operand(right)?),
            Sql::Cast { expr, data_type, array: false, format: None, .. } => self.operand(expr)?.cast(data_type),
            Sql::Function(function) => self.call(function),
            Sql::Case { operand: None, conditions, else_result, .. } => self.case(conditions, else_result.as_deref()),
            _ => None,
        }
    }

    fn in_list(&mut self, sql: &Sql, list: &[Sql]) -> Option<Expr> {
        let value = self.operand(sql)?;
        let items = list.iter().map(|item| self.operand(item)).collect::<Option<Vec<_>>>()?;
        if items.len() > SHORT_LIST {
            return value.among(&items);
        }
        let equal = items.into_iter().map(|item| value.clone().compare(&BinaryOperator::Eq, item));
        equal.collect::<Option<Vec<_>>>()?.into_iter().reduce(Expr::or)
    }

    fn like(&mut self, sql: &Sql, pattern: &Sql) -> Option<Expr> {
        let value = self.operand(sql)?;
        let pattern = self.operand(pattern)?.text?;
        value.like(&pattern)
    }

    /// Translates `CASE WHEN … THEN … ELSE … END` with results of one type.
    fn case(&mut self, branches: &[CaseWhen], otherwise: Option<&Sql>) -> Option<TypedExpr> {
        let mut results = Vec::new();
        for branch in branches {
            results.push((self.condition(&branch.condition)?, self.value(&branch.result)?));
        }
        let last = match otherwise {
            Some(sql) => self.value(sql)?,
            None => TypedExpr::null(),
        };
        let kinds = results.iter().map(|(_, value)| value.kind).chain([last.kind]);
        let kind = kinds.reduce(Kind::common_or_bad)?.known()?;
        let folded = results
            .into_iter()
            .rev()
            .fold(last.expr, |rest, (condition, value)| when(condition).then(value.expr).otherwise(rest));
        Some(TypedExpr::new(kind, folded))
    }
}

/// Whether an expression is true, false or null by its form, and binds less than a value.
fn is_comparison(sql: &Sql) -> bool {
    use BinaryOperator::{And, Eq, Gt, GtEq, Lt, LtEq, NotEq, Or};
    match sql {
        Sql::BinaryOp { op, .. } => matches!(op, And | Or | Eq | NotEq | Lt | LtEq | Gt | GtEq),
        Sql::UnaryOp { op, .. } => *op == UnaryOperator::Not,
        Sql::IsTrue(_)
        | Sql::IsNotTrue(_)
        | Sql::IsFalse(_)
        | Sql::IsNotFalse(_)
        | Sql::IsNull(_)
        | Sql::IsNotNull(_)
        | Sql::IsDistinctFrom(..)
        | Sql::IsNotDistinctFrom(..)
        | Sql::Between { .. }
        | Sql::InList { .. }
        | Sql::Like { .. } => true,
        _ => false,
    }
}

fn negate(condition: Expr, negated: bool) -> Expr {
    if negated { condition.not() } else { condition }
}
