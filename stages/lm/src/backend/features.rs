//! Declares the features of a backend.
//!
//! Stages query the features before a run, so that `check` can report the part of a workflow that requires a missing
//! one.

/// Support for scoring given sequences ([`super::Sampler::logprobs_of`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ForcedScoring {
    /// No sequences.
    Never,
    /// Sequences under the model's distribution: temperature 1 (or greedy), no truncation.
    Plain,
    /// Sequences under any distribution.
    Always,
}

/// Features of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackendFeatures {
    /// Training: [`super::Backend::learner`].
    pub trains: bool,
    /// Replacing the weights of samplers.
    pub weights: bool,
    /// Entropies of every token's distribution in samplers.
    pub entropies: bool,
    /// Log-probabilities of given sequences in samplers.
    pub forced_scoring: ForcedScoring,
    /// Scoring heads in samplers.
    pub scores: bool,
    /// Tokens follow the documented draw ([`crate::generate::DrawKey`]), so equal requests give equal tokens.
    pub reproducible_draws: bool,
}

impl BackendFeatures {
    /// All features.
    pub const ALL: Self = Self {
        trains: true,
        weights: true,
        entropies: true,
        forced_scoring: ForcedScoring::Always,
        scores: true,
        reproducible_draws: true,
    };
}
