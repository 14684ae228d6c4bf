//! Formats and prints output for users and programs.

pub mod clean;
pub mod comparison;
pub mod conversation;
pub mod diagnostics;
pub mod human;
pub mod lineage;
pub mod live;
pub mod metrics;
pub mod progress;
pub mod reports;
pub mod runs;
pub mod schedules;
pub mod segments;
pub mod style;
pub mod table;
pub mod trial;
pub mod width;
