//! Models that judge episodes: prompts and the parsing of verdicts. Used by the filter rule `judge` and the reward
//! `judged`.

mod judge;
mod prompt;
mod transcript;

pub use judge::{Judge, Judged, ask};
pub use prompt::{DEFAULT, Prompt};
pub use transcript::transcript;
