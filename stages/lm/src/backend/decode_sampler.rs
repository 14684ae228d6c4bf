//! Implements [`Sampler`] for backends that keep their sequences in a [`SequenceTable`].
//!
//! Such a backend only implements the computation of tokens, the trait [`Decode`].

use super::{Parameters, Sampler};
use crate::config::ModelConfig;
use crate::generate::{
    Cache, DrawKey, SequenceFinish, SequenceId, SequenceLogprobs, SequenceRequest, SequenceState, SequenceTable,
    TokenConstraint,
};
use trainyard_core::{Error, Result};
use trainyard_tables::SamplingParams;

/// Computation of tokens by a backend.
pub trait Decode: Send {
    /// State of the backend per sequence.
    type Cache: Cache + Send;
    /// Whether draws follow the constraints of sequences.
    const CONSTRAINS: bool = false;
    /// Draws one token for every running sequence of the table, or ends its turn.
    fn step(&mut self, table: &mut SequenceTable<Self::Cache>) -> Result<()>;
    /// Returns the bytes of a sequence's cache, as [`Sampler::cache_bytes`].
    fn cache_bytes(&self, tokens: usize) -> u64;
    /// Checks that tokens can be sampled. Errors: invalid, if the model has no language head.
    fn expect_language_head(&self) -> Result<()>;
    /// Replaces the weights, as [`Sampler::set_weights`].
    fn set_weights(&mut self, weights: &Parameters, version: u32) -> Result<()>;
    /// Scores given sequences, as [`Sampler::logprobs_of`], for tokens in the vocabulary.
    fn logprobs_of(&mut self, sequences: &[&[u32]], sampling: &SamplingParams) -> Result<Vec<SequenceLogprobs>>;
    /// Returns the outputs of the scoring head, as [`Sampler::score_labels`].
    fn score_labels(&self) -> usize;
    /// Computes the scoring head, as [`Sampler::score`], for tokens in the vocabulary.
    fn score(&mut self, sequences: &[&[u32]], positions: &[&[u32]]) -> Result<Vec<Vec<f32>>>;
}

/// The sampler of a [`Decode`].
pub struct DecodeSampler<D: Decode> {
    decode: D,
    sequences: SequenceTable<D::Cache>,
}

impl<D: Decode> DecodeSampler<D> {
    /// Creates a sampler for a model of this config.
    pub fn new(decode: D, config: &ModelConfig) -> Self {
        Self { decode, sequences: SequenceTable::new(config) }
    }
    /// Creates a sampler for a [`Decode`] without entropies.
    pub fn without_entropies(decode: D, config: &ModelConfig) -> Self {
        Self { decode, sequences: SequenceTable::new(config).without_entropies() }
    }
    fn expect_tokens(&self, sequences: &[&[u32]]) -> Result<()> {
        sequences.iter().try_for_each(|sequence| self.sequences.check_tokens(sequence))
    }
}

impl<D: Decode> Sampler for DecodeSampler<D> {
    fn start(&mut self, request: SequenceRequest) -> Result<SequenceId> {
        self.decode.expect_language_head()?;
        self.sequences.add(request)
    }
    fn fork(&mut self, id: SequenceId, at: usize, draw: DrawKey) -> Result<SequenceId> {
        self.sequences.fork(id, at, draw)
    }
    fn append(&mut self, id: SequenceId, tokens: &[u32], max_new_tokens: usize) -> Result<()> {
        self.sequences.append(id, tokens, max_new_tokens)
    }
    fn pause(&mut self, id: SequenceId) {
        self.sequences.stop(id);
    }
    fn resume(&mut self, id: SequenceId, max_new_tokens: usize) -> Result<()> {
        self.sequences.resume(id, max_new_tokens)
    }
    fn step(&mut self) -> Result<Vec<(SequenceId, SequenceFinish)>> {
        let ids = self.sequences.running().map(|(id, _)| id).collect();
        self.decode.step(&mut self.sequences)?;
        Ok(self.sequences.finished(ids))
    }
    fn running(&self) -> usize {
        self.sequences.running_count()
    }
    fn sequence(&self, id: SequenceId) -> &SequenceState {
        self.sequences.sequence(id)
    }
    fn supports_constraints(&self) -> bool {
        D::CONSTRAINS
    }
    fn constrain(&mut self, id: SequenceId, constraint: Box<dyn TokenConstraint>) -> Result<()> {
        if !D::CONSTRAINS {
            return Err(Error::invalid("an endpoint does not sample output of a given form")
                .help("use the backend `cpu` or `candle`"));
        }
        self.sequences.entry_mut(id).constraint = Some(constraint);
        Ok(())
    }
    fn remove(&mut self, id: SequenceId) -> SequenceState {
        self.sequences.remove(id)
    }
    fn positions(&self) -> usize {
        self.sequences.positions()
    }
    fn cache_bytes(&self, tokens: usize) -> u64 {
        self.decode.cache_bytes(tokens)
    }
    fn set_weights(&mut self, weights: &Parameters, version: u32) -> Result<()> {
        self.decode.set_weights(weights, version)?;
        self.sequences.version = version;
        Ok(())
    }
    fn version(&self) -> u32 {
        self.sequences.version
    }
    fn logprobs_of(&mut self, sequences: &[&[u32]], sampling: &SamplingParams) -> Result<Vec<SequenceLogprobs>> {
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
