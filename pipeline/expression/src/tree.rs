//! Defines the syntax tree of an expression. All passes work on the tree, and it depends on none of them.

use super::functions::BuiltinFunction;
use super::operators::{BinaryOperator, UnaryOperator};
use serde_json::Value;
use std::ops::Range;

/// A parsed expression over the names `N`, with the positions of all parts.
#[derive(Debug, Clone)]
pub struct Expr<N> {
    pub kind: ExpressionKind<N>,
    /// Byte range in the parsed text.
    pub range: Range<usize>,
}

/// Compares meaning; positions are ignored.
impl<N: PartialEq> PartialEq for Expr<N> {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

/// The forms of an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum ExpressionKind<N> {
    /// A value that is known.
    Literal(Value),
    /// A name, replaced once its value is known.
    Reference(N),
    /// `[a, b, …]`.
    List(Vec<Expr<N>>),
    /// An operator before its operand.
    Unary(UnaryOperator, Box<Expr<N>>),
    /// Left side, right side.
    Binary(BinaryOperator, Box<Expr<N>>, Box<Expr<N>>),
    /// `a[i]`, or `a.name` with a string literal as index.
    Index(Box<Expr<N>>, Box<Expr<N>>),
    /// A function with its arguments; their number is checked.
    Call(BuiltinFunction, Vec<Expr<N>>),
}

impl<N> Expr<N> {
    /// Creates a literal with an empty range.
    pub fn literal(value: Value) -> Self {
        Self { kind: ExpressionKind::Literal(value), range: 0..0 }
    }
    /// Returns all references, in source order.
    pub fn references(&self) -> Vec<&N> {
        let mut found = Vec::new();
        self.visit(&mut |e| {
            if let ExpressionKind::Reference(r) = &e.kind {
                found.push(r);
            }
        });
        found
    }
    /// Returns the literal, if all parts are known.
    pub fn as_literal(&self) -> Option<&Value> {
        match &self.kind {
            ExpressionKind::Literal(v) => Some(v),
            _ => None,
        }
    }
    /// Visits every part, each before the parts inside it.
    pub(crate) fn visit<'a>(&'a self, visitor: &mut dyn FnMut(&'a Self)) {
        visitor(self);
        match &self.kind {
            ExpressionKind::Literal(_) | ExpressionKind::Reference(_) => {}
            ExpressionKind::List(items) | ExpressionKind::Call(_, items) => items.iter().for_each(|e| e.visit(visitor)),
            ExpressionKind::Unary(_, a) => a.visit(visitor),
            ExpressionKind::Binary(_, a, b) | ExpressionKind::Index(a, b) => {
                a.visit(visitor);
                b.visit(visitor);
            }
        }
    }
}
