//! Translates arithmetic.

use super::value::{Kind, TypedExpr};
use polars::prelude::{DataType, Expr, NULL, lit, when};
use sqlparser::ast::{BinaryOperator, DataType as SqlType};

/// The largest distance from 0 of an integer whose opposite is an integer.
const LARGEST: u64 = i64::MAX.unsigned_abs();

impl Kind {
    /// Whether the values are numbers, and so are their opposites.
    fn has_opposite(self) -> bool {
        matches!(self, Self::Int(0..=LARGEST) | Self::Float)
    }
}

impl TypedExpr {
    /// Combines two numbers by an arithmetic operator.
    pub fn computed(self, operator: &BinaryOperator, other: Self) -> Option<Self> {
        let (a, b) = (self.boolean_as_int(), other.boolean_as_int());
        match (a.kind, b.kind) {
            (Kind::Int(x), Kind::Int(y)) => integers(a.expr, x, operator, b.expr, y),
            (Kind::Int(_) | Kind::Float, Kind::Int(_) | Kind::Float) => {
                floats(a.expr.cast(DataType::Float64), operator, b.expr.cast(DataType::Float64))
            }
            _ => None,
        }
    }
    /// Returns the value with the other sign.
    pub fn negated(self) -> Option<Self> {
        if let Some(value) = self.integer.and_then(i64::checked_neg) {
            return Some(Self::literal_integer(value));
        }
        let value = self.boolean_as_int();
        value.kind.has_opposite().then(|| Self::new(value.kind, -value.expr))
    }
    /// Converts a number.
    pub fn cast(self, to: &SqlType) -> Option<Self> {
        let value = self.boolean_as_int();
        match (to, value.kind) {
            (SqlType::Real | SqlType::Double(_) | SqlType::Float(_), Kind::Int(_) | Kind::Float) => {
                Some(Self::new(Kind::Float, value.expr.cast(DataType::Float64)))
            }
            (SqlType::Int(None) | SqlType::Integer(None) | SqlType::BigInt(None), Kind::Int(_)) => Some(value),
            _ => None,
        }
    }
    /// Returns the distance from 0.
    pub fn absolute(self) -> Option<Self> {
        let value = self.boolean_as_int();
        value.kind.has_opposite().then(|| {
            let expr = when(value.expr.clone().lt(lit(0_i64))).then(-value.expr.clone()).otherwise(value.expr);
            Self::new(value.kind, expr)
        })
    }
}

/// Computes with integers that cannot overflow.
fn integers(left: Expr, x: u64, operator: &BinaryOperator, right: Expr, y: u64) -> Option<TypedExpr> {
    let (expr, bound) = match operator {
        BinaryOperator::Plus => (left + right, x.checked_add(y)?),
        BinaryOperator::Minus => (left - right, x.checked_add(y)?),
        BinaryOperator::Multiply => (left * right, x.checked_mul(y)?),
        BinaryOperator::Modulo => (remainder(left, right), x),
        _ => return None,
    };
    (bound.max(x).max(y) <= LARGEST).then(|| TypedExpr::new(Kind::Int(bound), expr))
}

/// Returns the remainder with the sign of the dividend, as in C; null by 0.
fn remainder(left: Expr, right: Expr) -> Expr {
    let absolute = |value: Expr| when(value.clone().lt(lit(0_i64))).then(-value.clone()).otherwise(value);
    let divisor = when(right.clone().eq(lit(0_i64))).then(lit(NULL)).otherwise(absolute(right));
    let size = absolute(left.clone()) % divisor;
    when(left.lt(lit(0_i64))).then(-size.clone()).otherwise(size)
}

/// Computes with floats. What is not a number, and a quotient by 0, is null.
fn floats(left: Expr, operator: &BinaryOperator, right: Expr) -> Option<TypedExpr> {
    let result = match operator {
        BinaryOperator::Plus => left + right,
        BinaryOperator::Minus => left - right,
        BinaryOperator::Multiply => left * right,
        BinaryOperator::Divide => left / when(right.clone().eq(lit(0.0))).then(lit(NULL)).otherwise(right),
        _ => return None,
    };
    Some(TypedExpr::new(Kind::Float, result.fill_nan(lit(NULL))))
}
