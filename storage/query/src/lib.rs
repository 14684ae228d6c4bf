//! SQL over Parquet tables: one read-only SELECT, and filter expressions.
//!
//! The columns that a statement can name are loaded into an in-memory SQLite database, which answers it. Nothing else
//! can be reached: no other file, no second statement.
//!
//! Nested columns are flattened: a struct `sampling` becomes `sampling_temperature`, …; a map, or a list of names and
//! values such as `rewards`, one column per key (`rewards_answer`); other lists of structs (`messages`, `verdicts`)
//! JSON text. Lists of numbers are JSON text in SQL, too, and come back as lists. NaN is null. Integers beyond 2^63
//! keep their digits but compare as text.
//!
//! The limits bound what is read and what is returned. What a join multiplies in between is bounded only by the process
//! that runs it.
#![warn(missing_docs)]

mod database;
mod dialect;
mod failure;
pub mod filter;
mod flatten;
mod functions;
pub mod query;
mod result;
mod statement;
#[cfg(test)]
mod tests;

pub use database::QueryLimits;
pub use failure::is_out_of_memory;
pub use filter::filter_mask;
pub use query::query;
pub use result::{QueryResult, ResultColumn};
