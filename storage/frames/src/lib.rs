//! Tables as Polars frames: one read-only SQL statement, and filter expressions. No other crate depends on Polars.
//!
//! Rows are handed over as Arrow IPC streams, batch by batch, with only the columns that the query can name. Polars'
//! own file readers are not built in, so a query reaches no other file.
//!
//! Nested columns are flattened for SQL: a struct `sampling` becomes `sampling_temperature` and so on, a map `rewards`
//! one column for each key (`rewards_answer`), lists of structs (`messages`, `verdicts`) JSON text; lists of numbers
//! stay.
//!
//! Results must not depend on threads, so what a grouping query leaves unordered is sorted by its columns. Inputs and
//! results are bounded, but not what a statement such as a join uses in between: run it in a process that can be
//! killed.
//!
//! ```
//! use trainyard_frames::{QueryLimits, filter_mask, query};
//! use trainyard_tables::TableBuilder;
//!
//! const SQL: &str = "SELECT model FROM self WHERE accuracy > 0.5";
//!
//! # fn main() -> trainyard_core::Result<()> {
//! # let folder = tempfile::tempdir().expect("a folder");
//! let path = folder.path().join("data.parquet");
//! TableBuilder::new().string("model", ["sft", "rl"]).f64("accuracy", [0.2, 0.9]).write(&path)?;
//! let best = query(&[("self", path.as_path())], SQL, QueryLimits::default())?;
//! assert_eq!(best.rows, [[serde_json::json!("rl")]]);
//! assert_eq!(filter_mask(&path, "accuracy > 0.5")?, [false, true]);
//! # Ok(())
//! # }
//! ```
#![warn(missing_docs)]

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
