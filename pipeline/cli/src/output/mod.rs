//! Formats and prints output for users and programs.

pub mod clean;
pub mod comparison;
pub mod conversation;
pub mod diagnostics;
pub mod diff;
mod excerpt;
pub mod flips;
pub mod human;
pub mod lineage;
pub mod live;
pub mod metrics;
pub mod model;
pub mod notes;
pub mod progress;
pub mod report_page;
pub mod reports;
pub mod runs;
pub mod schedules;
pub mod search;
pub mod segments;
pub mod shell;
pub mod sparkline;
pub mod style;
pub mod table;
pub mod tokens;
pub mod trial;
pub mod width;
