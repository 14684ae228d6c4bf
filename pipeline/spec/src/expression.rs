//! Expressions inside `${{ … }}`: parse, print, rewrite, evaluate. `docs/workflows.md` is the language's reference.
//!
//! The language has operators `|| && ! == != < <= > >= + - * / %`, `a[i]`, `a.b`, list literals, the functions of
//! [`BuiltinFunction`], and the roots `params`, `matrix`, `item`, `inputs`, `outputs`, `stages.<id>.<port>`,
//! `stages.<id>.metrics.<name>`, `stages.<id>.status`. There are no loops, no assignment and no ambient values, so a
//! file's logic can be checked before anything runs.
//!
//! In a plan, the stage of a reference is the key of an instance (`rl[seed=1]`), printed `stages["rl[seed=1]"]`.
//! Everything known is a literal by then; what is left reads metrics, status, or the `item` of a late fan-out.

mod error;
mod evaluate;
mod functions;
mod lexer;
mod operators;
mod parser;
mod print;
mod rewrite;
mod scope;
#[cfg(test)]
mod tests;
mod tree;
mod types;
mod value;

pub use error::ExprError;
pub use functions::BuiltinFunction;
pub use operators::{BinaryOperator, UnaryOperator};
pub use parser::parse_embedded;
pub use print::is_name;
pub use rewrite::{ReplaceFn, ReplaceResult};
pub use scope::ExprScope;
pub use tree::{Expr, ExprKind, ExprReference};
pub use types::ExprType;
pub use value::value_text;

use serde_json::Value;
use trainyard_core::Result;

impl Expr {
    /// Parses the text between `${{` and `}}`.
    pub fn parse(text: &str) -> std::result::Result<Self, ExprError> {
        parser::parse(text)
    }
    /// Evaluates under `scope`. An error of kind invalid names the unknown reference or the mismatch.
    pub fn evaluate(&self, scope: &dyn ExprScope) -> Result<Value> {
        evaluate::evaluate(self, scope).map_err(|f| {
            let error = trainyard_core::Error::invalid(format!("in `{self}`: {}", f.message));
            match f.help {
                Some(help) => error.help(help),
                None => error,
            }
        })
    }
    /// Replaces references by the results of `replace` (`None` keeps one), then computes all known parts. Returns the
    /// first error.
    pub fn rewrite(&self, replace: ReplaceFn<'_>) -> std::result::Result<Self, ExprError> {
        rewrite::rewrite(self, replace)
    }
    /// Infers the type as far as it is known; reports type errors.
    pub fn check_types(&self) -> std::result::Result<ExprType, ExprError> {
        types::infer(self)
    }
}
