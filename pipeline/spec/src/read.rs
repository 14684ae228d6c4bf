//! Reads values out of the tree by their declared types.
//!
//! First [`BoundNode`]: the tree with its expressions parsed, names resolved and all known parts computed. Then
//! [`ValueReader`]: typed access that reports every mistake at its place.

mod bound;
mod typed;

pub use bound::{
    Binder, BoundContent, BoundEntry, BoundNode, NoReferences, ReferenceResolver, ResolveError, expression_span,
    has_expression, locate,
};
pub use typed::{MapFields, ValueReader};
