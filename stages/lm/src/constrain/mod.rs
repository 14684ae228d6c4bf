//! Restricts the tokens of a turn to texts of a [`Grammar`], such as JSON of a schema.
//!
//! ```text
//! JSON Schema ─schema─▶ Grammar ─recognizer─▶ states and bytes ─GrammarConstraint─▶ tokens that can come next
//! ```
//!
//! A grammar is a set of texts as bytes. The recognizer computes states when they are needed, so the cost depends on
//! what a turn reaches and not on the size of a schema's automaton. Everything that it writes is JSON that validates;
//! of the valid texts some cannot be written, such as numbers with an exponent (`docs/serving.md`).

mod constraint;
mod frames;
mod grammar;
mod number;
mod recognizer;
mod schema;
#[cfg(test)]
mod tests;
mod text;
mod turn;
mod vocabulary;

pub use constraint::GrammarConstraint;
pub use grammar::{Grammar, GrammarBuilder, NodeId};
pub use schema::SchemaCompiler;
pub use turn::turn_grammar;
pub use vocabulary::TokenBytes;
