//! Contains the stage kinds of this crate, one file or folder each; [`crate::registry`] lists them.

pub mod compare;
pub mod evaluate;
pub mod forgetting;
pub mod noop;
pub mod preference;
pub mod prm;
pub mod report;
pub mod rl;
pub mod sft;
