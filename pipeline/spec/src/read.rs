//! Reads values out of the tree by the type that is declared where they stand.
//!
//! First [`Bound`]: the tree with its expressions parsed, names resolved and everything known computed. Then
//! [`Reader`]: typed access that reports every mistake at its place.

mod bound;
mod typed;

pub use bound::{
    Binder, Bound, BoundContent, BoundEntry, Names, NoNames, Trouble, expression_span, has_expression, locate,
};
pub use typed::{Fields, Reader};
