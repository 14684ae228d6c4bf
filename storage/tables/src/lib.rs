//! Parquet/Arrow reading and writing, and the schemas of the artifact kinds `problems` and `trajectories`.
//!
//! Why so: rows are typed structs everywhere in the house; only this crate knows their Arrow form. Files are written with a fixed
//! `created_by`, fixed row-group size and compression, and are cut into the same pieces however rows arrive, so equal rows give
//! equal bytes. Refuses: nullability or type drift; a file whose schema differs is an error that names the column and both types.

pub mod builder;
mod damage;
mod decode;
mod encode;
pub mod export;
pub mod file;
pub mod json;
pub mod problem;
mod problem_columns;
pub mod rows;
pub mod schema;
pub mod select;
pub mod summary;
#[cfg(test)]
mod tests;
mod text_cells;
pub mod trajectory;
mod trajectory_columns;

pub use builder::TableBuilder;
pub use export::{export_csv, export_jsonl};
pub use file::{BatchReader, BatchWriter, Part, read_batches, read_schema, row_count, write_batches};
pub use json::rows_as_json;
pub use problem::{Message, Problem};
pub use rows::{
    RowReader, RowWriter, TableRow, read_problems, read_rows, read_trajectories, write_problems, write_rows,
    write_trajectories,
};
pub use select::{select_rows, take_rows};
pub use summary::summarize;
pub use trajectory::{Sampling, Status, StopReason, Trajectory, Verdict};
