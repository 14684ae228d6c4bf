//! Expressions inside `${{ … }}`: parse, print, rewrite, evaluate. `docs/workflows.md` is the language's reference.
//!
//! The language has operators `|| && ! == != < <= > >= + - * / %`, `a[i]`, `a.b`, list literals, the functions of
//! [`Function`], and the roots `params`, `matrix`, `item`, `inputs`, `outputs`, `stages.<id>.<port>`,
//! `stages.<id>.metrics.<name>`, `stages.<id>.status`. There are no loops, no assignment and no ambient values, so a
//! file's logic can be checked before anything runs.
//!
//! In a plan, the stage of a reference is the key of an instance (`rl[seed=1]`), printed `stages["rl[seed=1]"]`.
//! Everything known is a literal by then; what is left reads metrics, status, or the `item` of a late fan-out.

mod evaluate;
mod fold;
mod functions;
mod lexer;
mod operators;
mod parser;
mod print;
#[cfg(test)]
mod tests;
mod types;

pub use functions::Function;
pub use operators::{Binary, Unary};
pub use parser::parse_embedded;
pub use print::is_name;
pub use types::Type;

use serde::{Serialize, Serializer};
use serde_json::Value;
use std::ops::Range;
use trainyard_core::{Of, Result};

/// A parsed expression with the place of every part.
#[derive(Debug, Clone)]
pub struct Expression {
    /// What it computes.
    pub term: Term,
    /// Bytes in the text it was parsed from.
    pub range: Range<usize>,
}

/// Equal in meaning; places do not count.
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
    /// A function with its arguments; their number was checked.
    Call(Function, Vec<Expression>),
}

/// A name that stands for a value from outside the expression.
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
        /// Id, or the key of an instance in a plan.
        stage: String,
        /// Name of the output port.
        port: String,
    },
    /// `stages.<id>.metrics.<name>`, known after the stage.
    Metric {
        /// Id, or the key of an instance in a plan.
        stage: String,
        /// Name of the metric or comparison.
        name: String,
        /// Which number of a comparison.
        of: Option<Of>,
    },
    /// `stages.<id>.status`, known after the stage.
    Status {
        /// Id, or the key of an instance in a plan.
        stage: String,
    },
}

/// Where the values of references come from. `None` = not known here.
pub trait Scope {
    /// Value of a parameter.
    fn param(&self, _name: &str) -> Option<Value> {
        None
    }
    /// Value on an axis of `matrix`.
    fn matrix(&self, _axis: &str) -> Option<Value> {
        None
    }
    /// The row or item of `for_each`.
    fn item(&self) -> Option<Value> {
        None
    }
    /// A metric of a stage instance's manifest (a list of numbers, in order, if `stage` is a late fan-out; instances
    /// that were skipped are left out). `None` also where the stage did not report it.
    fn metric(&self, _stage: &str, _name: &str, _of: Option<Of>) -> Option<Value> {
        None
    }
    /// How a stage instance ended: `succeeded`, `failed`, `skipped`, `blocked` or `cancelled`.
    fn status(&self, _stage: &str) -> Option<Value> {
        None
    }
}

/// A mistake inside an expression: bytes in its text, what, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Bytes in the expression's text.
    pub range: Range<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Fault {
    /// A fault without a help.
    pub fn new(range: &Range<usize>, message: impl Into<String>) -> Self {
        Self { range: range.clone(), message: message.into(), help: None }
    }
    /// Says what to do about it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Replaces a reference (with its place): a term, `None` to keep it, or a fault.
pub type Replace<'a> = &'a mut dyn FnMut(&Reference, &Range<usize>) -> Replaced;
/// The answer of a [`Replace`]: `None` keeps the reference.
pub type Replaced = std::result::Result<Option<Term>, Fault>;

impl Expression {
    /// Parses the text between `${{` and `}}`.
    pub fn parse(text: &str) -> std::result::Result<Self, Fault> {
        parser::parse(text)
    }
    /// A known value, with an empty place.
    pub fn literal(value: Value) -> Self {
        Self { term: Term::Literal(value), range: 0..0 }
    }
    /// The value under `scope`. An error of kind invalid names what is unknown or does not fit together.
    pub fn evaluate(&self, scope: &dyn Scope) -> Result<Value> {
        evaluate::evaluate(self, scope).map_err(|f| {
            let error = trainyard_core::Error::invalid(format!("in `{self}`: {}", f.message));
            match f.help {
                Some(help) => error.help(help),
                None => error,
            }
        })
    }
    /// All references, in the order in which they are written.
    pub fn references(&self) -> Vec<&Reference> {
        let mut found = Vec::new();
        self.visit(&mut |e| {
            if let Term::Reference(r) = &e.term {
                found.push(r);
            }
        });
        found
    }
    /// Replaces references by what `replace` gives (`None` keeps one), then computes all that is known. The error is
    /// the first one.
    pub fn rewrite(&self, replace: Replace<'_>) -> std::result::Result<Self, Fault> {
        fold::rewrite(self, replace)
    }
    /// The type as far as it is known; type errors are found here.
    pub fn check_types(&self) -> std::result::Result<Type, Fault> {
        types::infer(self)
    }
    /// The literal, if nothing is left to compute.
    pub fn as_literal(&self) -> Option<&Value> {
        match &self.term {
            Term::Literal(v) => Some(v),
            _ => None,
        }
    }
    fn visit<'a>(&'a self, see: &mut dyn FnMut(&'a Self)) {
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

/// As text.
impl Serialize for Expression {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
