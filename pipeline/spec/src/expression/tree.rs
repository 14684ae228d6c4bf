//! Syntax tree of an expression. All passes work on it; it depends on none of them.

use super::functions::BuiltinFunction;
use super::operators::{BinaryOperator, UnaryOperator};
use serde_json::Value;
use std::ops::Range;
use trainyard_core::ComparisonField;

/// A parsed expression with the places of all parts.
#[derive(Debug, Clone)]
pub struct Expr {
    pub kind: ExprKind,
    /// Byte range in the parsed text.
    pub range: Range<usize>,
}

/// Compares meaning; places are ignored.
impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

/// The forms of an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum ExprKind {
    /// A value that is known.
    Literal(Value),
    /// A name, replaced once its value is known.
    Reference(ExprReference),
    /// `[a, b, …]`.
    List(Vec<Expr>),
    /// An operator before its operand.
    Unary(UnaryOperator, Box<Expr>),
    /// Left side, right side.
    Binary(BinaryOperator, Box<Expr>, Box<Expr>),
    /// `a[i]`, or `a.name` with a string literal as index.
    Index(Box<Expr>, Box<Expr>),
    /// A function with its arguments; their number is checked.
    Call(BuiltinFunction, Vec<Expr>),
}

/// A name of a value from outside the expression.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExprReference {
    /// `params.<name>`.
    Param(String),
    /// `matrix.<axis>`.
    Matrix(String),
    /// `item` of a `for_each`.
    Item,
    /// Local path of an input; `run` stages only.
    Input(String),
    /// Local path of an output; `run` stages only.
    Output(String),
    /// `stages.<id>.<port>`.
    Artifact {
        /// Stage id, or the key of an instance in a plan.
        stage: String,
        /// Name of the output port.
        port: String,
    },
    /// `stages.<id>.metrics.<name>`, known after the stage has ended.
    Metric {
        /// Stage id, or the key of an instance in a plan.
        stage: String,
        /// Name of the metric or comparison.
        name: String,
        /// Number of a comparison.
        of: Option<ComparisonField>,
    },
    /// `stages.<id>.status`, known after the stage has ended.
    Status {
        /// Stage id, or the key of an instance in a plan.
        stage: String,
    },
}

impl Expr {
    /// Creates a literal with an empty range.
    pub fn literal(value: Value) -> Self {
        Self { kind: ExprKind::Literal(value), range: 0..0 }
    }
    /// Returns all references, in source order.
    pub fn references(&self) -> Vec<&ExprReference> {
        let mut found = Vec::new();
        self.visit(&mut |e| {
            if let ExprKind::Reference(r) = &e.kind {
                found.push(r);
            }
        });
        found
    }
    /// Returns the literal, if all parts are known.
    pub fn as_literal(&self) -> Option<&Value> {
        match &self.kind {
            ExprKind::Literal(v) => Some(v),
            _ => None,
        }
    }
    /// Visits every part, each before the parts inside it.
    pub(super) fn visit<'a>(&'a self, see: &mut dyn FnMut(&'a Self)) {
        see(self);
        match &self.kind {
            ExprKind::Literal(_) | ExprKind::Reference(_) => {}
            ExprKind::List(items) | ExprKind::Call(_, items) => items.iter().for_each(|e| e.visit(see)),
            ExprKind::Unary(_, a) => a.visit(see),
            ExprKind::Binary(_, a, b) | ExprKind::Index(a, b) => {
                a.visit(see);
                b.visit(see);
            }
        }
    }
}
