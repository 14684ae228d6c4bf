//! Wraps a sampler so that it advances every sequence under each version of the weights exactly as far as a record
//! shows.
//!
//! Neither the wrapped sampler nor the driver is aware of the repetition: a sequence at its bound is paused until the
//! weights change, and the driver sees it as still sampling.

use super::replay_schedule::ReplaySchedule;
use std::collections::{BTreeMap, BTreeSet};
use trainyard_core::Result;
use trainyard_lm::backend::{Parameters, Sampler};
use trainyard_lm::generate::{
    DrawKey, SequenceFinish, SequenceId, SequenceLogprobs, SequenceRequest, SequenceState, TokenConstraint,
};
use trainyard_tables::SamplingParams;

/// Sampler with a schedule.
pub struct ScheduledSampler {
    inner: Box<dyn Sampler>,
    schedule: ReplaySchedule,
    /// Key of a sequence's draws, and the limit of its turn.
    sequences: BTreeMap<SequenceId, (DrawKey, usize)>,
    paused: BTreeSet<SequenceId>,
}

impl ScheduledSampler {
    pub fn new(inner: Box<dyn Sampler>, schedule: ReplaySchedule) -> Self {
        Self { inner, schedule, sequences: BTreeMap::new(), paused: BTreeSet::new() }
    }
    /// Returns the number of tokens that the open turn of a sequence may contain under the current weights, at most the
    /// turn's limit. `None` if the sequence must pause.
    fn bound(&self, id: SequenceId) -> Option<usize> {
        let (key, limit) = self.sequences.get(&id)?;
        let state = self.inner.sequence(id);
        let sampled = state.sampled_in_turn().len();
        match self.schedule.allowed(key, self.inner.version(), state.token_ids.len()) {
            0 => None,
            allowed => Some((*limit).min(sampled.saturating_add(allowed))),
        }
    }
    /// Starts the turn of a sequence, up to its bound.
    fn begin(&mut self, id: SequenceId) -> Result<()> {
        self.inner.pause(id);
        match self.bound(id) {
            Some(bound) => self.inner.resume(id, bound),
            None => {
                self.paused.insert(id);
                Ok(())
            }
        }
    }
}

impl Sampler for ScheduledSampler {
    fn start(&mut self, request: SequenceRequest) -> Result<SequenceId> {
        let (key, limit) = (request.draw, request.max_new_tokens);
        let id = self.inner.start(request)?;
        self.sequences.insert(id, (key, limit));
        self.begin(id)?;
        Ok(id)
    }
    fn fork(&mut self, id: SequenceId, at: usize, draw: DrawKey) -> Result<SequenceId> {
        self.inner.fork(id, at, draw)
    }
    fn append(&mut self, id: SequenceId, tokens: &[u32], max_new_tokens: usize) -> Result<()> {
        self.inner.append(id, tokens, max_new_tokens)?;
        if let Some((_, limit)) = self.sequences.get_mut(&id) {
            *limit = max_new_tokens;
        }
        self.begin(id)
    }
    fn pause(&mut self, id: SequenceId) {
        self.inner.pause(id);
    }
    fn resume(&mut self, id: SequenceId, max_new_tokens: usize) -> Result<()> {
        self.inner.resume(id, max_new_tokens)
    }
    fn step(&mut self) -> Result<Vec<(SequenceId, SequenceFinish)>> {
        let mut ended = Vec::new();
        for (id, finish) in self.inner.step()? {
            let sampled = self.inner.sequence(id).sampled_in_turn().len();
            let limit = self.sequences.get(&id).map_or(0, |(_, limit)| *limit);
            if finish == SequenceFinish::Length && sampled < limit {
                self.paused.insert(id);
            } else {
                ended.push((id, finish));
            }
        }
        Ok(ended)
    }
    fn running(&self) -> usize {
        self.inner.running()
    }
    fn sequence(&self, id: SequenceId) -> &SequenceState {
        self.inner.sequence(id)
    }
    fn supports_constraints(&self) -> bool {
        self.inner.supports_constraints()
    }
    fn constrain(&mut self, id: SequenceId, constraint: Box<dyn TokenConstraint>) -> Result<()> {
        self.inner.constrain(id, constraint)
    }
    fn remove(&mut self, id: SequenceId) -> SequenceState {
        self.sequences.remove(&id);
        self.paused.remove(&id);
        self.inner.remove(id)
    }
    fn positions(&self) -> usize {
        self.inner.positions()
    }
    fn cache_bytes(&self, tokens: usize) -> u64 {
        self.inner.cache_bytes(tokens)
    }
    fn set_weights(&mut self, weights: &Parameters, version: u32) -> Result<()> {
        self.inner.set_weights(weights, version)?;
        for id in std::mem::take(&mut self.paused) {
            match self.bound(id) {
                Some(bound) => self.inner.resume(id, bound)?,
                None => {
                    self.paused.insert(id);
                }
            }
        }
        Ok(())
    }
    fn version(&self) -> u32 {
        self.inner.version()
    }
    fn logprobs_of(&mut self, sequences: &[&[u32]], sampling: &SamplingParams) -> Result<Vec<SequenceLogprobs>> {
        self.inner.logprobs_of(sequences, sampling)
    }
    fn score_labels(&self) -> usize {
        self.inner.score_labels()
    }
    fn score(&mut self, sequences: &[&[u32]], positions: &[&[u32]]) -> Result<Vec<Vec<f32>>> {
        self.inner.score(sequences, positions)
    }
}
