//! Defines expressions with the type that their values have in SQLite.

use polars::prelude::{DataType, Expr, NULL, Series, lit};
use sqlparser::ast::BinaryOperator;

/// Integers up to this are exact as floats.
const EXACT_FLOAT: u64 = 1 << 53;

/// Type of values that are not null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All values are null.
    Null,
    /// A polars boolean, SQLite's integer 0 or 1.
    Bool,
    /// A 64-bit integer that is at most this far from 0.
    Int(u64),
    /// A 64-bit float, finite or infinite.
    Float,
    /// Text.
    Text,
    /// A list, which SQLite sees as JSON text.
    List,
}

impl Kind {
    /// Returns the kind of a value that is one or the other: a list, which no operation takes, if they differ.
    pub fn common_or_bad(self, other: Self) -> Self {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => Self::Int(a.max(b)),
            (Self::Null, kind) | (kind, Self::Null) => kind,
            (a, b) if a == b => a,
            _ => Self::List,
        }
    }
    /// Returns the kind unless it is a list.
    pub fn known(self) -> Option<Self> {
        (self != Self::List).then_some(self)
    }
}

/// A polars expression and the type of its values.
#[derive(Debug, Clone)]
pub(crate) struct TypedExpr {
    pub kind: Kind,
    pub expr: Expr,
    /// The text of a literal.
    pub text: Option<String>,
    /// The value of an integer literal.
    pub integer: Option<i64>,
}

/// Returns a condition as a value.
pub(crate) fn truth(condition: Expr) -> TypedExpr {
    TypedExpr::new(Kind::Bool, condition)
}

impl TypedExpr {
    pub fn new(kind: Kind, expr: Expr) -> Self {
        Self { kind, expr, text: None, integer: None }
    }
    pub fn null() -> Self {
        Self::new(Kind::Null, lit(NULL))
    }
    pub fn literal_text(text: &str) -> Self {
        Self { text: Some(text.to_string()), ..Self::new(Kind::Text, lit(text.to_string())) }
    }
    pub fn literal_integer(value: i64) -> Self {
        // A literal without a cast takes the smallest type that fits, and some functions of polars refuse mixed types.
        let expr = lit(value).cast(DataType::Int64);
        Self { integer: Some(value), ..Self::new(Kind::Int(value.unsigned_abs()), expr) }
    }
    /// Returns a boolean as the integer that it is in SQLite.
    pub fn boolean_as_int(self) -> Self {
        match self.kind {
            Kind::Bool => Self::new(Kind::Int(1), self.expr.cast(DataType::Int64)),
            _ => self,
        }
    }
    /// Returns both sides in one polars type in which comparisons are those of SQLite.
    pub fn aligned(self, other: Self) -> Option<(Expr, Expr)> {
        let (a, b) = (self.boolean_as_int(), other.boolean_as_int());
        match (a.kind, b.kind) {
            (Kind::Int(_), Kind::Int(_)) | (Kind::Float, Kind::Float) | (Kind::Text, Kind::Text) => {
                Some((a.expr, b.expr))
            }
            (Kind::Int(bound), Kind::Float) if bound <= EXACT_FLOAT => Some((a.expr.cast(DataType::Float64), b.expr)),
            (Kind::Float, Kind::Int(bound)) if bound <= EXACT_FLOAT => Some((a.expr, b.expr.cast(DataType::Float64))),
            _ => None,
        }
    }
    /// Compares with another value.
    pub fn compare(self, operator: &BinaryOperator, other: Self) -> Option<Expr> {
        let comparison: fn(Expr, Expr) -> Expr = match operator {
            BinaryOperator::Eq => |a, b| a.eq(b),
            BinaryOperator::NotEq => |a, b| a.neq(b),
            BinaryOperator::Lt => |a, b| a.lt(b),
            BinaryOperator::LtEq => |a, b| a.lt_eq(b),
            BinaryOperator::Gt => |a, b| a.gt(b),
            BinaryOperator::GtEq => |a, b| a.gt_eq(b),
            _ => return None,
        };
        if self.kind == Kind::Null || other.kind == Kind::Null {
            return Some(lit(NULL).cast(DataType::Boolean));
        }
        let (left, right) = self.aligned(other)?;
        Some(comparison(left, right))
    }
    /// Compares with literals of the same type.
    pub fn among(self, items: &[Self]) -> Option<Expr> {
        let set = match self.kind {
            Kind::Text => {
                let texts = items.iter().map(|item| item.text.clone()).collect::<Option<Vec<_>>>()?;
                Series::from_iter(texts)
            }
            Kind::Int(_) => {
                let numbers = items.iter().map(|item| item.integer).collect::<Option<Vec<_>>>()?;
                Series::from_iter(numbers)
            }
            _ => return None,
        };
        Some(self.expr.is_in(lit(set).implode(true), false))
    }
}
