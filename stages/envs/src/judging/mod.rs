//! Lets models at endpoints judge episodes: writes the prompts and parses the verdicts.
//!
//! The filter rule `judge` and the reward `judged` use this module.

mod judge;
mod prompt;
mod transcript;

pub use judge::{EpisodeJudge, JudgeVerdict, request_verdicts};
pub use prompt::{DEFAULT, JudgePrompt};
pub use transcript::transcript;
