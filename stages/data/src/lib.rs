//! Imports, exports, synthesizes, filters and selects training data, and makes preference pairs and step labels.
//!
//! The stages are functions from tables to tables, and rejected rows are outputs with their reasons. Imported and
//! synthesized rows are text until `data/tokenize` or a training stage tokenizes them. Tool results in synthesized rows
//! always come from executed tools.

pub mod annotation;
mod custom_rows;
pub mod export;
pub mod facts;
pub mod filter;
pub mod frame;
pub mod hash;
pub mod identity;
pub mod import;
pub mod io;
#[cfg(test)]
mod made_rows;
pub mod pairs;
pub mod parts;
#[cfg(test)]
mod recorded_tests;
pub mod registry;
mod row_expression;
pub mod row_files;
mod row_mask;
mod row_selection;
pub mod select;
pub mod solutions;
#[cfg(test)]
mod stage_tests;
pub mod step_labels;
pub mod step_scorers;
pub mod synthesize;
#[cfg(test)]
mod testing;
pub mod text;
pub mod tool_text;

pub use parts::DataParts;
pub use registry::stages;
