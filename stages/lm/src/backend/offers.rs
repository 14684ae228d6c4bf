//! What a backend can do. Stages ask before anything runs, so that `check` names the part that would need more.

/// Which given sequences a sampler scores ([`super::Sampler::logprobs_of`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forced {
    /// None.
    Never,
    /// Those under the model's own distribution: temperature 1 (or greedy), no truncation.
    Plain,
    /// Those under any distribution.
    Always,
}

/// What a backend can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offers {
    /// It trains: [`super::Backend::learner`].
    pub trains: bool,
    /// Its samplers take new weights.
    pub weights: bool,
    /// Its samplers give the entropy of every token's distribution.
    pub entropies: bool,
    /// Its samplers give log-probabilities of given sequences.
    pub forced: Forced,
    /// Its samplers compute scoring heads.
    pub scores: bool,
    /// Tokens follow the documented draw ([`crate::generate::DrawKey`]), so equal requests give equal tokens.
    pub draws: bool,
}

impl Offers {
    /// Everything.
    pub const ALL: Self =
        Self { trains: true, weights: true, entropies: true, forced: Forced::Always, scores: true, draws: true };
}
