//! Decodes batches of sequences with a KV cache: shared prefixes, forks, observations, teacher forcing.
//!
//! Rollouts, evaluation and Monte-Carlo labels must be reproducible in every batch, so the bits of a sequence do not
//! depend on the batch size, its neighbors, the number of threads or the vector width of the machine ([`kernels`]).
//! Tokens are only appended, never decoded and encoded again. See `docs/design/0010-rollouts-and-backends.md`.

mod cache;
mod constraint;
mod decode;
mod engine;
mod forward;
pub mod kernels;
mod numbers;
mod pack;
mod sampling;
mod sequence;
mod sequence_table;
mod teacher_forcing;
#[cfg(test)]
mod tests;

pub(crate) use cache::Cache;
pub use constraint::{ForbiddenTokens, TokenConstraint};
pub use engine::Generator;
pub(crate) use engine::no_language_head;
pub use pack::WeightSource;
#[cfg(test)]
pub(crate) use sampling::Buffer as DistributionBuffer;
pub use sampling::Distribution;
pub(crate) use sampling::check as check_sampling;
pub use sequence::{ConstrainedToken, DrawKey, SequenceFinish, SequenceId, SequenceRequest, SequenceState};
pub(crate) use sequence_table::{SequenceEntry, SequenceTable, groups};
pub use teacher_forcing::SequenceLogprobs;
pub(crate) use teacher_forcing::{check_positions, no_scoring_head};
