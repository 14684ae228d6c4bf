//! Implements the commands, one file for each.

pub mod artifacts;
pub mod check;
pub mod completions;
pub mod conformance;
pub mod doctor;
pub mod explain;
pub mod init;
pub mod logs;
mod models;
pub mod parity;
pub mod plan;
pub mod recipes;
mod resource_usage;
pub mod run;
pub mod runs;
pub mod schedules;
pub mod schema;
pub mod serve;
pub mod serve_model;
pub mod serve_tools;
pub mod stages;
pub mod try_stage;
