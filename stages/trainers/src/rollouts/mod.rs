//! Rollouts for a trainer in the environments of this program: the stage runs the episodes and scores them, and the
//! trainer samples their tokens.
//!
//! Prompts, tools, answers and rewards are therefore those of `rl` and `evaluate`, and the sampled tokens are the
//! learned ones: no token is encoded twice. The trainer's standard input is one end of a socket, over which both write
//! lines of JSON ([`wire`]).

mod declared;
mod options;
mod play;
mod serve;
#[cfg(test)]
mod tests;
mod wire;

pub use declared::metrics;
pub use options::RolloutOptions;
pub use play::{RolloutService, RolloutSettings};
pub use serve::serve_trainer;
