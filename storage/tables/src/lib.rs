//! Reads and writes Parquet files, and defines the schemas of the artifact kinds `problems` and `trajectories`.
//!
//! Other crates see rows as typed structs; only this crate knows their Arrow form. Equal rows give equal bytes: files
//! have a fixed `created_by`, row-group size and compression, and rows are cut into the same pieces regardless of the
//! batches in which they are written.
//!
//! ```
//! use trainyard_tables::{Message, Problem, read_problems, write_problems};
//!
//! # fn main() -> trainyard_core::Result<()> {
//! # let folder = tempfile::tempdir().expect("a folder");
//! let path = folder.path().join("data.parquet");
//! let messages = vec![Message::new("user", "What is 2 + 3?")];
//! let row = Problem { messages, answer: "5".into(), ..Problem::default() };
//! assert_eq!(write_problems(&path, &[row.clone()])?, 1);
//! assert_eq!(read_problems(&path)?, [row]);
//! # Ok(())
//! # }
//! ```
#![warn(missing_docs)]

pub mod answer_check;
mod answer_check_columns;
mod bounded_rows;
pub mod builder;
pub mod chosen_rows;
pub mod complete_file;
mod decode;
mod decoded_batches;
mod encode;
pub mod errored_turns;
pub mod export;
pub mod extra;
#[cfg(test)]
mod extra_tests;
pub mod file;
mod file_error;
pub mod find;
pub mod gather;
pub mod groups;
pub mod json;
pub mod message_columns;
pub mod ordered;
pub mod ordered_columns;
pub mod problem;
mod problem_columns;
pub mod rollout_facts;
mod row_bytes;
pub mod row_digest;
pub mod row_sample;
pub mod rows;
pub mod schema;
pub mod select;
pub mod source;
pub mod summary;
#[cfg(test)]
mod tests;
mod text_cells;
pub mod token_pack;
pub mod trajectory;
mod trajectory_columns;
pub mod turn_form;
pub mod update_rows;

pub use answer_check::AnswerCheck;
pub use bounded_rows::read_bounded;
pub use builder::TableBuilder;
pub use chosen_rows::ChosenRows;
pub use complete_file::write_complete;
pub use errored_turns::{answers_in_prompt, errored_turns, mask_turns};
pub use export::{CsvFormulas, export_csv, export_jsonl};
pub use extra::ExtraColumns;
pub use file::{BatchReader, BatchWriter, ReadSlice, read_batches, read_schema, row_count, write_batches};
pub use find::{TextMatch, find_rows, find_texts, first_rows};
pub use gather::gather_rows;
pub use groups::{BatchBounds, GroupReader, byte_count};
pub use json::{columns_as_json, part_as_json, rows_as_json};
pub use message_columns::MessageColumns;
pub use ordered::OrderedValue;
pub use ordered_columns::{OrderedRowTypes, OrderedRowWriter};
pub use problem::{Message, Problem};
pub use rollout_facts::{AnswerVerdict, FactTable, RolloutFacts, read_facts, read_facts_of};
pub use row_digest::{RowDigest, cell_digests, row_digests};
pub use row_sample::{RowSample, SampleBounds, sample_rows};
pub use rows::{
    TableRow, TableRowReader, TableRowWriter, conform_rows, decode_part, encode_columns, encode_rows, read_problems,
    read_rows, read_trajectories, write_problems, write_rows, write_trajectories,
};
pub use select::select_rows;
pub use source::{ReadRanges, TableSource};
pub use summary::summarize;
pub use token_pack::TokenPack;
pub use trajectory::{EpisodeStatus, SamplingParams, StopReason, Trajectory, Verdict};
pub use turn_form::{AnswerForm, CallForm, CallSyntax, CallableTool, TurnForm, TurnFormError};
pub use update_rows::{UpdateRows, read_updates};
