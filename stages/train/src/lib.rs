//! The stages that learn: supervised fine-tuning, preference learning, reinforcement learning, process reward models,
//! evaluation.
//!
//! Rollouts are one engine for all of them ([`rollouts`]). Mathematics lives in `trainyard-learn`, tensors and decoding
//! in `trainyard-lm`, tools and verifiers in `trainyard-envs`; here they become loops that can be killed at any moment
//! and resumed to the same bytes.

#![warn(missing_docs)]

#[cfg(test)]
mod adapter_tests;
pub mod config;
mod contexts;
#[cfg(test)]
mod family_tests;
pub mod model;
pub mod native;
pub mod optimize;
pub mod own_defaults;
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
pub mod with_backend;
pub mod with_environment;

pub use parts::Parts;
