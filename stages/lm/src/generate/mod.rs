//! Batched decoding with a KV cache: shared prefixes, forks, observations, teacher forcing.
//!
//! Rollouts, evaluation and Monte-Carlo labels must be reproducible in every batch, so the bits of a sequence do not
//! depend on the batch size, its neighbors, the number of threads or the vector width of the machine ([`kernels`]).
//! Tokens are only appended, never decoded and encoded again.

mod cache;
mod decode;
mod engine;
mod forward;
pub mod kernels;
mod numbers;
mod pack;
mod roster;
mod sampling;
mod sequence;
mod teacher;
#[cfg(test)]
mod tests;

pub(crate) use cache::Cache;
pub use engine::Generator;
pub(crate) use engine::no_language_head;
pub use pack::WeightSource;
pub(crate) use roster::{Entry, Roster, groups};
#[cfg(test)]
pub(crate) use sampling::Buffer as DistributionBuffer;
pub use sampling::Distribution;
pub(crate) use sampling::check as check_sampling;
pub use sequence::{DrawKey, Finish, Request, SequenceId, SequenceState};
pub use teacher::Scored;
pub(crate) use teacher::{check_positions, no_scoring_head};
