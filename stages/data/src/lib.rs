//! Data for agents: import, synthesis, filtering, selection and step labels.
//!
//! Each stage is a pure function from tables to tables whose rejected rows and reasons are outputs too. Rows are text until `sft`
//! tokenizes them, and no result of a tool is written that no tool returned.

pub mod annotation;
pub mod filter;
pub mod hash;
pub mod identity;
pub mod import;
pub mod io;
pub mod parts;
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

pub use parts::Parts;
pub use registry::stages;
