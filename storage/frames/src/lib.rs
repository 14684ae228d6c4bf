//! Tables as Polars frames: one read-only SQL statement, and filter expressions.
//!
//! Why so: people ask tables questions, and filters are written as expressions; a query engine answers both, and this crate is
//! its only home, so nothing else pays for it. Rows are handed over as Arrow IPC streams batch by batch, only the columns that a
//! query can name. Polars' own readers of Parquet and CSV are left out of the build, so a query reaches no other file.
//!
//! Nested columns are flattened for SQL: a struct `sampling` becomes `sampling_temperature`, …, a map `rewards` one column for
//! each key (`rewards_answer`), lists of structs (`messages`, `verdicts`) JSON text; lists of numbers stay lists.
//!
//! Refuses: every statement but one SELECT; results and inputs beyond the limits; a result order that depends on threads: what a
//! grouping query leaves unordered is sorted by its columns. What a statement takes between its input and its result, in time and
//! memory, is not bounded here: nothing stops a join but the end of its process.

mod failure;
pub mod filter;
mod flatten;
mod handover;
pub mod query;
mod result;
mod statement;
#[cfg(test)]
mod tests;

pub use filter::filter_mask;
pub use handover::QueryLimits;
pub use query::query;
pub use result::{QueryResult, ResultColumn};
