//! Runs one SQL SELECT over named tables: joins, groups, windows, sorts, samples.
//!
//! Polars reads the SQL (`polars-sql`) and computes the result in memory. Of the tables, only the columns that the
//! statement needs are read. The order of the rows is a function of the tables: all steps keep the order of their
//! input (`plan`). Joins are counted before they are made (`joins`).

mod conditions;
mod joins;
mod plan;
mod random;
mod result;
mod run;
mod run_error;
mod scan;
mod settings;
mod small_offsets;
mod statement;
mod table;
#[cfg(test)]
mod tests;

pub use result::FrameResult;
pub use settings::{AfterBatch, FrameSettings};
pub use statement::{FrameStatement, SOURCE_ID};
pub use table::FrameTable;
