//! Reads values out of the tree by their declared types.
//!
//! First [`Bound`]: the tree with its expressions parsed, names resolved and all known parts computed. Then [`Reader`]:
//! typed access that reports every mistake at its place.

mod bound;
mod typed;

pub use bound::{
    Binder, Bound, BoundContent, BoundEntry, Names, NoNames, Trouble, expression_span, has_expression, locate,
};
pub use typed::{Fields, Reader};
