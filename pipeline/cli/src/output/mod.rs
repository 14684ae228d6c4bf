//! What people and programs see.

pub mod diagnostics;
pub mod human;
pub mod progress;
pub mod reports;
pub mod runs;
