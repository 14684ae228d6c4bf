//! Practice of a trainer in the environments of this program: the stage plays the episodes and scores them, and the
//! trainer draws their tokens.
//!
//! So prompts, tools, answers and rewards are those of `rl` and `evaluate`, and what is sampled is what is learned: no
//! token is encoded twice. The trainer's standard input is one end of a socket, over which both write lines of JSON
//! ([`wire`]).

mod declared;
mod options;
mod play;
mod serve;
#[cfg(test)]
mod tests;
mod wire;

pub use declared::metrics;
pub use options::RolloutOptions;
pub use play::{Practice, Setting};
pub use serve::beside;
