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
mod page_catalogue;
pub mod pages;
pub mod parity;
pub mod plan;
pub mod recipes;
pub mod report;
mod resource_usage;
pub mod run;
pub mod runs;
pub mod schedules;
pub mod schema;
pub mod search;
pub mod serve;
pub mod serve_model;
pub mod serve_tools;
pub mod stages;
pub mod top;
pub mod try_stage;

/// Returns the author of a change: the given one, or else the value of `USER`.
fn author(given: Option<&str>) -> Option<String> {
    given.map(str::to_string).or_else(|| std::env::var("USER").ok()).filter(|name| !name.is_empty())
}
