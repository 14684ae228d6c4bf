//! Queries Parquet tables by SQL: one read-only SELECT, or a filter expression.
//!
//! A statement names its tables: `self`, and artifacts (`latest/test/problems`).
//!
//! The columns that a statement can name are loaded into an in-memory SQLite database, which runs the statement. The
//! database has no access to other files, and a second statement is rejected.
//!
//! Nested columns are flattened. A struct `sampling` becomes `sampling_temperature`, …; a map, or a list of names and
//! values such as `rewards`, becomes one column per key (`rewards_answer`); another list of structs (`messages`,
//! `verdicts`) becomes JSON text. A list of numbers is JSON text in SQL too, and is returned as a list. NaN is null.
//! The keys of the column `meta`, further columns of imported rows as JSON text, become columns `meta_<name>`.
//! Integers beyond 2^63 keep their digits but compare as text.
//!
//! The limits bound the input and the result. Only the process that runs the query can bound the intermediate rows of a
//! join.

pub mod check;
mod database;
mod dialect;
mod error;
pub mod filter;
pub mod flatten;
mod functions;
pub mod grouped;
mod meta;
#[cfg(test)]
mod meta_tests;
pub mod query;
mod references;
mod result;
mod statement;
#[cfg(test)]
mod tests;

pub use check::{FilterColumns, filter_columns};
pub use database::QueryLimits;
pub use error::is_out_of_memory;
pub use filter::{FilterExpression, filter_mask};
pub use flatten::{CellKind, ColumnFlattener};
pub use grouped::{Aggregate, AggregateFunction, GroupedStatement};
pub use query::{query, table_names};
pub use result::{QueryResult, ResultColumn};
