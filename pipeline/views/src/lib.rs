//! Typed views of a store: runs, stages, artifacts, rows, their lineage, differences, tags and notes.
//!
//! Each view is a function from the store to a plain struct, paged where it may be long. The terminal, the HTTP API and
//! browser pages render views and read nothing else. Manifests come first, then the columns and row groups that the
//! view needs. Only `diff` and `search`, when it builds an index, read whole tables, part by part.
#![warn(missing_docs)]

pub mod annotations;
pub mod artifacts;
pub mod comparison;
pub mod config_rows;
pub mod curve_tail;
pub mod curves;
pub mod diff;
pub mod explain;
pub mod filter_flow;
pub mod find;
pub mod followed;
pub mod graph;
pub mod histograms;
pub mod lineage;
pub mod live;
pub mod log_lines;
pub mod logs;
pub mod metric_order;
pub mod model;
pub mod near_duplicates;
mod object_bytes;
pub mod report;
pub mod rollout_sample;
pub mod rollouts;
pub mod row_lineage;
mod run_names;
pub mod run_search;
pub mod runs;
pub mod search;
pub mod stage;
pub mod status;
pub mod step_labels;
pub mod stream_page;
pub mod sweep;
pub mod table;
pub mod table_rows;
mod tensors;
#[cfg(test)]
mod testing;
pub mod timeline;
pub mod timeline_gaps;
pub mod token_text;
pub mod tokens;
pub mod trajectory;
pub mod untrusted;
pub mod word_diff;
