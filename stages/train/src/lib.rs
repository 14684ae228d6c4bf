//! Trains and evaluates models: supervised fine-tuning, preference learning, reinforcement learning, process reward
//! models, evaluation.
//!
//! All stages that play episodes share one rollout engine ([`rollouts`]). `trainyard-learn` contains the mathematics,
//! `trainyard-lm` tensors and decoding, and `trainyard-envs` tools and verifiers. The loops of this crate can be killed
//! at any moment and resume with byte-identical results, except for asynchronous RL, whose results depend on the timing
//! of threads.

#[cfg(test)]
mod adapter_tests;
pub mod backend_config;
pub mod config;
mod contexts;
pub mod environment_config;
#[cfg(test)]
mod family_tests;
pub mod model;
mod model_options;
pub mod native;
pub mod optimize;
pub mod option_defaults;
pub mod parts;
#[cfg(test)]
mod pinned_training;
pub mod problems;
mod programs;
pub mod registry;
pub mod results;
pub mod rewards;
pub mod rollouts;
mod row_options;
mod spans;
pub mod stages;
mod sweep;
#[cfg(test)]
mod testing;
mod unreadable;

pub use parts::TrainParts;
