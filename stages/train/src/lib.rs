//! Training stages: supervised fine-tuning, preference learning, reinforcement learning, process reward models,
//! evaluation.
//!
//! All of them share one rollout engine ([`rollouts`]). `trainyard-learn` has the mathematics, `trainyard-lm` tensors
//! and decoding, `trainyard-envs` tools and verifiers; this crate makes of them loops that can be killed at any moment
//! and resumed with byte-identical results.

#[cfg(test)]
mod adapter_tests;
pub mod backend_config;
pub mod config;
mod contexts;
pub mod environment_config;
#[cfg(test)]
mod family_tests;
pub mod model;
pub mod native;
pub mod optimize;
pub mod option_defaults;
pub mod parts;
pub mod problems;
mod programs;
pub mod registry;
pub mod results;
pub mod rewards;
pub mod rollouts;
mod row_options;
mod spans;
pub mod stages;
#[cfg(test)]
mod testing;

pub use parts::TrainParts;
