//! Runs queries of the tool `sql`: databases within limits, and the sessions of its worker.
//!
//! The same query always gives the same text: SQLite's instruction count limits queries, and queries see neither clock
//! nor random numbers (`authorizer`, `dates`). Queries are text of a model, so they run in confined worker processes
//! (`sessions`).

pub(crate) mod authorizer;
pub mod budget;
pub mod database;
pub(crate) mod dates;
pub(crate) mod sessions;

pub use budget::StatementBudget;
pub use database::{DatabaseData, QueryFailure, SqlDatabase, SqlLimits};

#[cfg(test)]
mod tests;
