//! Provides rollouts for a trainer in the environments of this program. The stage runs and scores the episodes, and the
//! trainer samples their tokens.
//!
//! Therefore prompts, tools, answers and rewards are those of `rl` and `evaluate`. The trainer learns exactly the
//! tokens that it sampled, since no token is encoded twice. The trainer's standard input is one end of a socket, over
//! which both sides send lines of JSON ([`wire`]).

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
