//! Implements the expression language: parse, print, check, rewrite, evaluate. `docs/workflows.md` is its reference.
//!
//! It has the operators `|| && ! == != < <= > >= + - * / %`, `a[i]`, `a.b`, list literals and functions. There are no
//! loops, no assignment and no ambient values. A use of the language adds names and a form:
//!
//! - [`ScopeName`]: the names, how they are read, their types, and the kind of their values ([`ExpressionValue`])
//! - [`ExpressionDialect`]: switches, such as numbers alone, or `and` in addition to `&&`
//! - [`Scope`]: the values of the names
//!
//! `trainyard-spec` uses it for `${{ … }}`, with exact values and names such as `params.<name>`; the reward
//! `expression` uses it over counts of an episode, with floats.

mod dialect;
mod domain;
mod evaluate;
mod fault;
mod fold;
mod functions;
mod infer;
mod lexer;
mod name;
mod numbers;
mod operators;
mod parser;
mod print;
mod scope;
#[cfg(test)]
mod tests;
mod tree;
mod types;
mod value;
mod words;

pub use dialect::ExpressionDialect;
pub use domain::ExpressionValue;
pub use fault::{ExpressionError, ExpressionErrorKind};
pub use fold::{ReplaceFn, ReplaceResult};
pub use functions::BuiltinFunction;
pub use name::ScopeName;
pub use operators::{BinaryOperator, UnaryOperator};
pub use parser::{MAX_DEPTH, parse_embedded};
pub use print::{is_name, member};
pub use scope::Scope;
pub use tree::{Expr, ExpressionKind};
pub use types::ExprType;
pub use value::value_text;
pub use words::TokenReader;

use serde_json::Value;
use trainyard_core::Result;

impl<N: ScopeName> Expr<N> {
    /// Parses a text that is one expression. Returns the first fault.
    pub fn parse(text: &str) -> std::result::Result<Self, ExpressionError> {
        parser::parse(text)
    }
    /// Evaluates under `scope`. An error of kind invalid names the unknown reference or the mismatch.
    pub fn evaluate(&self, scope: &dyn Scope<N>) -> Result<N::Value> {
        evaluate::evaluate(self, scope).map_err(|f| {
            let error = trainyard_core::Error::invalid(format!("in `{self}`: {}", f.message));
            match f.help {
                Some(help) => error.help(help),
                None => error,
            }
        })
    }
    /// Infers the type as far as it is known; reports type errors.
    pub fn check_types(&self) -> std::result::Result<ExprType, ExpressionError> {
        infer::infer(self)
    }
}

impl<N: ScopeName<Value = Value>> Expr<N> {
    /// Replaces references by the results of `replace` (`None` keeps one), then computes all known parts. Returns the
    /// first error.
    pub fn rewrite(&self, replace: ReplaceFn<'_, N>) -> std::result::Result<Self, ExpressionError> {
        fold::rewrite(self, replace)
    }
}
