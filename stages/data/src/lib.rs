//! Data for agents: import, synthesis, filtering, selection and step labels.
//!
//! Why so: everything that decides which rows a model sees stands in one room, and each stage is a pure function from tables to
//! tables whose rejected rows and reasons are outputs too. Formats, synthesis methods and filter rules live one file each, with
//! one line in the `registry.rs` beside them. Refuses: tokens (rows are text until `sft` tokenizes them), silent drops (every
//! row that is not kept is counted and, in `data/filter`, kept with its reason), and results of tools that no tool returned.

pub mod annotation;
pub mod facts;
pub mod filter;
pub mod hash;
pub mod identity;
pub mod import;
pub mod io;
pub mod registry;
pub mod select;
pub mod solutions;
#[cfg(test)]
mod stage_tests;
pub mod step_labels;
pub mod synthesize;
#[cfg(test)]
mod testing;
pub mod text;
pub mod tool_text;

pub use registry::stages;
