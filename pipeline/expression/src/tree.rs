//! Syntax tree of an expression. All passes work on it; it depends on none of them.

use super::functions::Function;
use super::operators::{Binary, Unary};
use serde_json::Value;
use std::ops::Range;

/// A parsed expression over the names `N`, with the places of all parts.
#[derive(Debug, Clone)]
pub struct Expression<N> {
    pub term: Term<N>,
    /// Byte range in the parsed text.
    pub range: Range<usize>,
}

/// Compares meaning; places are ignored.
impl<N: PartialEq> PartialEq for Expression<N> {
    fn eq(&self, other: &Self) -> bool {
        self.term == other.term
    }
}

/// The forms of an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Term<N> {
    /// A value that is known.
    Literal(Value),
    /// A name, replaced once its value is known.
    Reference(N),
    /// `[a, b, …]`.
    List(Vec<Expression<N>>),
    /// An operator before its operand.
    Unary(Unary, Box<Expression<N>>),
    /// Left side, right side.
    Binary(Binary, Box<Expression<N>>, Box<Expression<N>>),
    /// `a[i]`, or `a.name` with a string literal as index.
    Index(Box<Expression<N>>, Box<Expression<N>>),
    /// A function with its arguments; their number is checked.
    Call(Function, Vec<Expression<N>>),
}

impl<N> Expression<N> {
    /// Creates a literal with an empty range.
    pub fn literal(value: Value) -> Self {
        Self { term: Term::Literal(value), range: 0..0 }
    }
    /// Returns all references, in source order.
    pub fn references(&self) -> Vec<&N> {
        let mut found = Vec::new();
        self.visit(&mut |e| {
            if let Term::Reference(r) = &e.term {
                found.push(r);
            }
        });
        found
    }
    /// Returns the literal, if all parts are known.
    pub fn as_literal(&self) -> Option<&Value> {
        match &self.term {
            Term::Literal(v) => Some(v),
            _ => None,
        }
    }
    /// Visits every part, each before the parts inside it.
    pub(crate) fn visit<'a>(&'a self, see: &mut dyn FnMut(&'a Self)) {
        see(self);
        match &self.term {
            Term::Literal(_) | Term::Reference(_) => {}
            Term::List(items) | Term::Call(_, items) => items.iter().for_each(|e| e.visit(see)),
            Term::Unary(_, a) => a.visit(see),
            Term::Binary(_, a, b) | Term::Index(a, b) => {
                a.visit(see);
                b.visit(see);
            }
        }
    }
}
