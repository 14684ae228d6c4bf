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
    /// Whether the backend trains ([`super::Backend::learner`]).
    pub trains: bool,
    /// Whether samplers accept new weights.
    pub weights: bool,
    /// Whether samplers record the entropy of every token's distribution.
    pub entropies: bool,
    /// Log-probabilities of given sequences in samplers.
    pub forced_scoring: ForcedScoring,
    /// Whether samplers compute scoring heads.
    pub scores: bool,
    /// Whether tokens follow the documented draw ([`crate::generate::DrawKey`]), so that equal requests give equal
    /// tokens.
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
