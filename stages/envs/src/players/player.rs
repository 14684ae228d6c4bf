//! Defines the jobs of a player, and its environments.

use crate::Environment;
use trainyard_tables::Problem;

/// One episode to play.
#[derive(Debug, Clone, Copy)]
pub struct PlayerJob<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// Number that distinguishes the episodes of one problem.
    pub draw: u64,
    /// Seed of the episode.
    pub seed: u64,
}

/// Environments in which episodes are played.
pub struct Player<'a> {
    pub environment: &'a dyn Environment,
    /// The same environment with the prompts that the model sees ([`super::ModelCallMode::prompt_environment`]).
    /// `None` = the environment's prompts.
    pub prompt_environment: Option<&'a dyn Environment>,
    /// Whether the server receives the tools and responds with calls.
    pub native: bool,
}
