//! A [`Sampler`] whose sequences are kept by the engine's roster: a backend only adds the computation of tokens.

use super::{Parameters, Sampler};
use crate::config::ModelConfig;
use crate::generate::{Cache, DrawKey, Finish, Request, Roster, Scored, SequenceId, SequenceState};
use trainyard_core::Result;
use trainyard_tables::Sampling;

/// Computation of tokens by a backend.
pub trait Decode: Send {
    /// State per sequence.
    type Cache: Cache + Send;
    /// Draws one token for every running sequence of the roster, or ends its turn.
    fn step(&mut self, roster: &mut Roster<Self::Cache>) -> Result<()>;
    /// As [`Sampler::cache_bytes`].
    fn cache_bytes(&self, tokens: usize) -> u64;
    /// Checks that tokens can be sampled. Errors: invalid, if the model has no language head.
    fn expect_language_head(&self) -> Result<()>;
    /// As [`Sampler::set_weights`].
    fn set_weights(&mut self, weights: &Parameters, version: u32) -> Result<()>;
    /// As [`Sampler::logprobs_of`], for tokens in the vocabulary.
    fn logprobs_of(&mut self, sequences: &[&[u32]], sampling: &Sampling) -> Result<Vec<Scored>>;
    /// As [`Sampler::score_labels`].
    fn score_labels(&self) -> usize;
    /// As [`Sampler::score`], for tokens in the vocabulary.
    fn score(&mut self, sequences: &[&[u32]], positions: &[&[u32]]) -> Result<Vec<Vec<f32>>>;
}

/// The sampler of a [`Decode`].
pub struct Rostered<D: Decode> {
    decode: D,
    roster: Roster<D::Cache>,
}

impl<D: Decode> Rostered<D> {
    /// Creates a sampler; `config` is the model's.
    pub fn new(decode: D, config: &ModelConfig) -> Self {
        Self { decode, roster: Roster::new(config) }
    }
    /// Creates a sampler for a [`Decode`] without entropies.
    pub fn without_entropies(decode: D, config: &ModelConfig) -> Self {
        Self { decode, roster: Roster::new(config).without_entropies() }
    }
    fn expect_tokens(&self, sequences: &[&[u32]]) -> Result<()> {
        sequences.iter().try_for_each(|sequence| self.roster.check_tokens(sequence))
    }
}

impl<D: Decode> Sampler for Rostered<D> {
    fn start(&mut self, request: Request) -> Result<SequenceId> {
        self.decode.expect_language_head()?;
        self.roster.add(request)
    }
    fn fork(&mut self, id: SequenceId, at: usize, draw: DrawKey) -> Result<SequenceId> {
        self.roster.fork(id, at, draw)
    }
    fn append(&mut self, id: SequenceId, tokens: &[u32], max_new_tokens: usize) -> Result<()> {
        self.roster.append(id, tokens, max_new_tokens)
    }
    fn pause(&mut self, id: SequenceId) {
        self.roster.stop(id);
    }
    fn resume(&mut self, id: SequenceId, max_new_tokens: usize) -> Result<()> {
        self.roster.resume(id, max_new_tokens)
    }
    fn step(&mut self) -> Result<Vec<(SequenceId, Finish)>> {
        let ids = self.roster.running().map(|(id, _)| id).collect();
        self.decode.step(&mut self.roster)?;
        Ok(self.roster.finished(ids))
    }
    fn running(&self) -> usize {
        self.roster.running_count()
    }
    fn sequence(&self, id: SequenceId) -> &SequenceState {
        self.roster.sequence(id)
    }
    fn remove(&mut self, id: SequenceId) -> SequenceState {
        self.roster.remove(id)
    }
    fn positions(&self) -> usize {
        self.roster.positions()
    }
    fn cache_bytes(&self, tokens: usize) -> u64 {
        self.decode.cache_bytes(tokens)
    }
    fn set_weights(&mut self, weights: &Parameters, version: u32) -> Result<()> {
        self.decode.set_weights(weights, version)?;
        self.roster.version = version;
        Ok(())
    }
    fn version(&self) -> u32 {
        self.roster.version
    }
    fn logprobs_of(&mut self, sequences: &[&[u32]], sampling: &Sampling) -> Result<Vec<Scored>> {
        crate::generate::check_sampling(sampling)?;
        self.decode.expect_language_head()?;
        self.expect_tokens(sequences)?;
        self.decode.logprobs_of(sequences, sampling)
    }
    fn score_labels(&self) -> usize {
        self.decode.score_labels()
    }
    fn score(&mut self, sequences: &[&[u32]], positions: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        self.expect_tokens(sequences)?;
        self.decode.score(sequences, positions)
    }
}
