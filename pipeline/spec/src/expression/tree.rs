//! Syntax tree of an expression. All passes work on it; it depends on none of them.

use super::functions::Function;
use super::operators::{Binary, Unary};
use serde_json::Value;
use std::ops::Range;
use trainyard_core::Of;

/// A parsed expression with the places of all parts.
#[derive(Debug, Clone)]
pub struct Expression {
    pub term: Term,
    /// Byte range in the parsed text.
    pub range: Range<usize>,
}

/// Compares meaning; places are ignored.
impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.term == other.term
    }
}

/// The forms of an expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Term {
    /// A value that is known.
    Literal(Value),
    /// A name, replaced once its value is known.
    Reference(Reference),
    /// `[a, b, …]`.
    List(Vec<Expression>),
    /// An operator before its operand.
    Unary(Unary, Box<Expression>),
    /// Left side, right side.
    Binary(Binary, Box<Expression>, Box<Expression>),
    /// `a[i]`, or `a.name` with a string literal as index.
    Index(Box<Expression>, Box<Expression>),
    /// A function with its arguments; their number is checked.
    Call(Function, Vec<Expression>),
}

/// A name of a value from outside the expression.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reference {
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
        of: Option<Of>,
    },
    /// `stages.<id>.status`, known after the stage has ended.
    Status {
        /// Stage id, or the key of an instance in a plan.
        stage: String,
    },
}

impl Expression {
    /// Creates a literal with an empty range.
    pub fn literal(value: Value) -> Self {
        Self { term: Term::Literal(value), range: 0..0 }
    }
    /// Returns all references, in source order.
    pub fn references(&self) -> Vec<&Reference> {
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
    pub(super) fn visit<'a>(&'a self, see: &mut dyn FnMut(&'a Self)) {
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
