//! SQL over Parquet tables: one read-only SELECT, and filter expressions.
//!
//! The columns that a statement can name are loaded into an in-memory SQLite database, which runs it. It has no access
//! to other files, and a second statement is rejected.
//!
//! Nested columns are flattened: a struct `sampling` becomes `sampling_temperature`, …; a map, or a list of names and
//! values such as `rewards`, one column per key (`rewards_answer`); other lists of structs (`messages`, `verdicts`)
//! JSON text. Lists of numbers are JSON text in SQL, too, and are returned as lists. NaN is null. Integers beyond 2^63
//! keep their digits but compare as text.
//!
//! The limits bound the input and the result. Intermediate rows of a join are bounded only by the process that runs it.

mod database;
mod dialect;
mod error;
pub mod filter;
mod flatten;
mod functions;
pub mod query;
mod result;
mod statement;
#[cfg(test)]
mod tests;

pub use database::QueryLimits;
pub use error::is_out_of_memory;
pub use filter::filter_mask;
pub use query::query;
pub use result::{QueryResult, ResultColumn};
