//! Batched decoding with a KV cache: shared prefixes, forks, observations, teacher forcing.
//!
//! Rollouts, evaluation and Monte-Carlo labels must be reproducible whatever shares a batch, so the bits of a sequence
//! do not depend on the batch size, its neighbors, the number of threads or the vector width of the machine
//! ([`kernels`]). Tokens are only appended, never decoded and encoded again.

mod cache;
mod decode;
mod engine;
mod forward;
pub mod kernels;
mod pack;
mod sampling;
mod sequence;
mod teacher;
#[cfg(test)]
mod tests;

pub use engine::Generator;
pub use pack::WeightSource;
pub use sampling::Distribution;
pub use sequence::{DrawKey, Finish, Request, SequenceId, SequenceState};
pub use teacher::Scored;
