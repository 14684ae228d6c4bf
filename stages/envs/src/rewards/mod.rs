//! Rewards: functions from a finished episode to a number. A file each, a line each in [`registry`].

pub mod answer;
pub mod format;
pub mod length;
pub mod registry;
pub mod reward;
pub mod tool_success;

pub use registry::{build, check, complete};
pub use reward::{Reward, Score};
