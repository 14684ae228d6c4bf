//! The stages that learn: supervised fine-tuning, reinforcement learning, process reward models, evaluation.
//!
//! Why so: rollouts are one engine for all of them ([`rollouts`]); mathematics lives in `trainyard-learn`, tensors and decoding in
//! `trainyard-lm`, tools and verifiers in `trainyard-envs`; here they are wired into loops that can be killed at any moment and
//! resumed to the same bytes. Refuses: ambient time or chance, numbers that are not finite (the stage stops and names the step),
//! models whose tokenizer or template does not match the data.

pub mod checkpoint;
pub mod config;
pub mod curves;
pub mod model;
pub mod optimize;
pub mod own_defaults;
pub mod problems;
pub mod registry;
pub mod results;
pub mod rollouts;
mod spans;
pub mod stages;
#[cfg(test)]
mod testing;
pub mod world;
