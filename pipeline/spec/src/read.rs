//! Reads values from the tree by their declared types.
//!
//! A [`BoundNode`] is the tree with its expressions parsed, names resolved and all known parts computed. A
//! [`ValueReader`] then reads typed values from it and reports every mistake at its position.

mod bound;
mod typed;

pub use bound::{
    Binder, BoundContent, BoundEntry, BoundNode, NoReferences, ReferenceResolver, ResolveError, expression_span,
    has_expression, locate,
};
pub use typed::{MapFields, ValueReader};
