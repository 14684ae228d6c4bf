//! What is played, and where.

use crate::Environment;
use trainyard_tables::Problem;

/// One episode to play.
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// The problem.
    pub problem: &'a Problem,
    /// Tells episodes of one problem apart.
    pub draw: u64,
    /// Seed of the episode.
    pub seed: u64,
}

/// Where episodes are played.
pub struct Player<'a> {
    /// The environment.
    pub environment: &'a dyn Environment,
    /// The same, with the prompts that the model sees ([`super::Calls::unspoken`]); none = it sees those of the
    /// environment.
    pub unspoken: Option<&'a dyn Environment>,
    /// Whether the server is told the tools, and answers with calls.
    pub native: bool,
}
