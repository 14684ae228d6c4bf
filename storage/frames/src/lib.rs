//! Computes over tables as polars frames: filter expressions as masks, and groups of large tables.
//!
//! The only home of polars. Files are read by `trainyard_tables`; their batches become frames by Arrow's C data
//! interface, without a copy. A filter expression is SQL as `trainyard_query` reads it: what has the same meaning as a
//! polars expression is computed so, and SQLite answers the rest.
#![warn(missing_docs)]

mod c_interface;
pub mod exchange;
mod groups;
pub mod mask;
pub mod query;
pub mod sql;
#[cfg(test)]
mod tests;
mod translate;
#[cfg(test)]
mod translation_tests;

pub use exchange::{batch_of, frame_of};
pub use mask::{Batches, mask};
pub use query::query;
