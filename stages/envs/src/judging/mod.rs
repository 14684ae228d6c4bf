//! Models that judge episodes: prompts and the parsing of verdicts. Used by the filter rule `judge` and the reward
//! `judged`.

mod judge;
mod prompt;
mod transcript;

pub use judge::{EpisodeJudge, JudgeVerdict, request_verdicts};
pub use prompt::{DEFAULT, JudgePrompt};
pub use transcript::transcript;
