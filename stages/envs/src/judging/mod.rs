//! Models that judge episodes: what they are shown, and how their verdicts are read. The filter rule `judge` and the
//! reward `judged` are made of this.

mod judge;
mod prompt;
mod transcript;

pub use judge::{Judge, Judged, ask};
pub use prompt::{DEFAULT, Prompt};
pub use transcript::transcript;
