//! Parses expressions inside `${{ … }}`: the language of [`trainyard_expression`] over the names of a workflow file.
//! `docs/workflows.md` is the language's reference.
//!
//! The roots are `params`, `matrix`, `item`, `inputs`, `outputs`, `stages.<id>.<port>`, `stages.<id>.metrics.<name>`
//! and `stages.<id>.status`; values are JSON values of exact types. A file's logic can be checked before anything runs.
//!
//! In a plan, the stage of a reference is the key of an instance (`rl[seed=1]`), printed `stages["rl[seed=1]"]`. All
//! known values are literals in a plan; the remaining expressions read metrics, status, or the `item` of a late
//! fan-out.

mod reference;
mod roots;
#[cfg(test)]
mod tests;

pub use reference::ExprReference;
pub use trainyard_expression::{
    BinaryOperator, BuiltinFunction, ExprType, ExpressionError, Scope, UnaryOperator, is_name, value_text,
};

/// An expression over the names of a workflow file.
pub type Expression = trainyard_expression::Expr<ExprReference>;
/// The forms of an expression.
pub type Term = trainyard_expression::ExpressionKind<ExprReference>;

/// Parses an expression that starts right after `${{`; ranges are within `text`. Also returns the position after its
/// `}}`.
pub fn parse_embedded(text: &str, start: usize) -> (Result<Expression, ExpressionError>, usize) {
    trainyard_expression::parse_embedded(text, start)
}
