//! Implements [`Sampler`] with the generator.

use crate::backend::{Parameters, Sampler};
use crate::generate::{
    DrawKey, Generator, SequenceFinish, SequenceId, SequenceLogprobs, SequenceRequest, SequenceState, TokenConstraint,
};
use trainyard_core::Result;
use trainyard_tables::SamplingParams;

impl Sampler for Generator {
    fn start(&mut self, request: SequenceRequest) -> Result<SequenceId> {
        self.add(request)
    }
    fn fork(&mut self, id: SequenceId, at: usize, draw: DrawKey) -> Result<SequenceId> {
        Self::fork(self, id, at, draw)
    }
    fn append(&mut self, id: SequenceId, tokens: &[u32], max_new_tokens: usize) -> Result<()> {
        Self::append(self, id, tokens, max_new_tokens)
    }
    fn pause(&mut self, id: SequenceId) {
        self.stop(id);
    }
    fn resume(&mut self, id: SequenceId, max_new_tokens: usize) -> Result<()> {
        Self::resume(self, id, max_new_tokens)
    }
    fn step(&mut self) -> Result<Vec<(SequenceId, SequenceFinish)>> {
        Self::step(self)
    }
    fn running(&self) -> usize {
        Self::running(self)
    }
    fn sequence(&self, id: SequenceId) -> &SequenceState {
        Self::sequence(self, id)
    }
    fn supports_constraints(&self) -> bool {
        true
    }
    fn constrain(&mut self, id: SequenceId, constraint: Box<dyn TokenConstraint>) -> Result<()> {
        Self::constrain(self, id, constraint);
        Ok(())
    }
    fn list_top(&mut self, id: SequenceId, count: usize) -> Result<()> {
        Self::list_top(self, id, count);
        Ok(())
    }
    fn top(&self, id: SequenceId) -> &[Vec<(u32, f32)>] {
        Self::top(self, id)
    }
    fn remove(&mut self, id: SequenceId) -> SequenceState {
        Self::remove(self, id)
    }
    fn positions(&self) -> usize {
        Self::positions(self)
    }
    fn cache_bytes(&self, tokens: usize) -> u64 {
        Self::cache_bytes(self, tokens)
    }
    fn set_weights(&mut self, weights: &Parameters, version: u32) -> Result<()> {
        self.update(weights, version)
    }
    fn version(&self) -> u32 {
        Self::version(self)
    }
    fn logprobs_of(&mut self, sequences: &[&[u32]], sampling: &SamplingParams) -> Result<Vec<SequenceLogprobs>> {
        Self::logprobs_of(self, sequences, sampling)
    }
    fn score_labels(&self) -> usize {
        Self::score_labels(self)
    }
    fn score(&mut self, sequences: &[&[u32]], positions: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        Self::score(self, sequences, positions)
    }
}
