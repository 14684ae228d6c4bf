//! Holds the sequences of a sampler: their operations, and the effect of a drawn token.
//!
//! A backend that computes the tokens keeps its cache per sequence in the entries of the table.

use super::cache::Cache;
use super::constraint::{ForbiddenTokens, TokenConstraint};
use super::sampling;
use super::sequence::{ConstrainedToken, DrawKey, SequenceFinish, SequenceId, SequenceRequest, SequenceState};
use crate::config::ModelConfig;
use std::collections::BTreeMap;
use trainyard_core::chance::PhiloxRng;
use trainyard_core::{Error, Result};
use trainyard_tables::SamplingParams;

/// A sequence and the state of its sampling.
pub struct SequenceEntry<C> {
    pub state: SequenceState,
    pub draw: DrawKey,
    pub sampling: SamplingParams,
    pub stop_tokens: Vec<u32>,
    pub max_new_tokens: usize,
    /// Number of most probable tokens to list for every sampled one.
    pub top: usize,
    /// Listed tokens, from the first token that was sampled after the request.
    pub listed: Vec<Vec<(u32, f32)>>,
    /// Rule about the sampled tokens of the current turn. Forks are not bound by it.
    pub constraint: Option<Box<dyn TokenConstraint>>,
    /// Tokens that `cache` covers.
    pub cached: usize,
    pub cache: C,
}

impl<C> SequenceEntry<C> {
    /// Returns whether the limit leaves no token to sample; if so, ends the turn.
    pub fn is_full(&mut self) -> bool {
        let full = self.state.sampled_in_turn().len() >= self.max_new_tokens;
        if full {
            self.state.finish = Some(SequenceFinish::Length);
        }
        full
    }
    /// Returns the tokens that a constraint forbids as the next one; `None` without a constraint. Errors: the end of a
    /// turn in which no token can follow.
    pub fn forbidden(&mut self, vocabulary: u32) -> Result<Option<ForbiddenTokens>, SequenceFinish> {
        let Some(constraint) = &mut self.constraint else { return Ok(None) };
        constraint.forbidden(vocabulary).map(Some).ok_or(SequenceFinish::Length)
    }
    /// Records that the next recorded token is one of those that `forbidden` leaves of `vocabulary`. `free_logprob` is
    /// its log-probability among all tokens.
    pub fn record_constrained(&mut self, forbidden: &ForbiddenTokens, vocabulary: u32, free_logprob: f32) {
        let permitted = vocabulary - forbidden.iter().map(|ids| ids.end - ids.start).sum::<u32>();
        let at = self.state.token_ids.len();
        self.state.constrained.push(ConstrainedToken { at, free_logprob, only: permitted == 1 });
    }
    /// Returns the uniform number in [0, 1) that draws the next token.
    pub fn uniform(&self) -> f64 {
        self.draws().uniform()
    }
    /// Returns a seed for an external source of the next tokens.
    pub fn seed(&self) -> u64 {
        self.draws().next_u64()
    }
    fn draws(&self) -> PhiloxRng {
        let DrawKey { chance, problem, sample } = self.draw;
        let place = [problem, sample, u64::from(self.state.current_turn()), self.state.token_ids.len() as u64];
        chance.at("sample", &place)
    }
    /// Records the next token and ends the turn if the token is a stop token or reaches the limit or `positions`
    /// tokens.
    pub fn record_token(&mut self, token: u32, logprob: f32, entropy: f32, version: u32, positions: usize) {
        if let Some(constraint) = &mut self.constraint {
            constraint.advance(token);
        }
        let state = &mut self.state;
        state.push(token, logprob, entropy, version);
        if self.stop_tokens.contains(&token) {
            state.finish = Some(SequenceFinish::Stop(token));
        } else if state.sampled_in_turn().len() >= self.max_new_tokens || state.token_ids.len() >= positions {
            state.finish = Some(SequenceFinish::Length);
        }
    }
}

/// All sequences of a sampler by their ids.
pub struct SequenceTable<C> {
    entries: BTreeMap<SequenceId, SequenceEntry<C>>,
    next: u64,
    /// Config, which defines the valid tokens and the maximum length of a sequence.
    config: ModelConfig,
    /// Version of the current weights; 0 for the first.
    pub version: u32,
    /// Whether sequences have entropies.
    entropies: bool,
}

impl<C: Cache> SequenceTable<C> {
    pub fn new(config: &ModelConfig) -> Self {
        Self { entries: BTreeMap::new(), next: 0, config: config.clone(), version: 0, entropies: true }
    }
    /// Returns the table with sequences without entropies.
    pub fn without_entropies(self) -> Self {
        Self { entropies: false, ..self }
    }
    pub fn positions(&self) -> usize {
        self.config.positions()
    }
    /// Adds a sequence, as [`super::Generator::add`].
    pub fn add(&mut self, request: SequenceRequest) -> Result<SequenceId> {
        if request.tokens.is_empty() {
            return Err(Error::invalid("a prompt needs at least one token"));
        }
        self.check_tokens(&request.tokens)?;
        self.check_length(request.tokens.len())?;
        sampling::check(&request.sampling)?;
        let mut state = SequenceState::given(&request.tokens, self.version);
        if !self.entropies {
            state.entropies.clear();
        }
        Ok(self.insert(SequenceEntry {
            state,
            draw: request.draw,
            sampling: request.sampling,
            stop_tokens: request.stop_tokens,
            max_new_tokens: request.max_new_tokens,
            top: 0,
            listed: Vec::new(),
            constraint: None,
            cached: 0,
            cache: C::default(),
        }))
    }
    /// Appends an observation, as [`super::Generator::append`].
    pub fn append(&mut self, id: SequenceId, tokens: &[u32], max_new_tokens: usize) -> Result<()> {
        self.check_tokens(tokens)?;
        let state = &self.entry(id).state;
        if tokens.is_empty() {
            return Err(Error::invalid("an observation needs at least one token"));
        }
        match state.finish {
            None => {
                return Err(Error::invalid(format!("sequence {} is still sampling", id.0))
                    .help("append after its turn has finished"));
            }
            Some(SequenceFinish::Nan) => {
                return Err(Error::data(format!("sequence {} ended with logits that are not finite", id.0)));
            }
            Some(SequenceFinish::Stop(_) | SequenceFinish::Length) => {}
        }
        self.check_length(state.token_ids.len() + tokens.len())?;
        let version = self.version;
        let entry = self.entry_mut(id);
        let turn = entry.state.current_turn() + 1;
        entry.state.extend(tokens, turn, version);
        entry.state.finish = None;
        entry.constraint = None;
        entry.max_new_tokens = max_new_tokens;
        Ok(())
    }
    /// Creates a fork, as [`super::Generator::fork`].
    pub fn fork(&mut self, id: SequenceId, at: usize, draw: DrawKey) -> Result<SequenceId> {
        let parent = self.entry(id);
        let length = parent.state.token_ids.len();
        if at == 0 || at > length {
            return Err(Error::invalid(format!("sequence {} has {length} tokens: it cannot be forked at {at}", id.0)));
        }
        let mut state = parent.state.prefix(at);
        state.fork_of = Some((id, at));
        let last = state.token_ids[at - 1];
        if state.loss_mask[at - 1] && parent.stop_tokens.contains(&last) {
            state.finish = Some(SequenceFinish::Stop(last));
        }
        // The last token is computed again: its logits are not kept.
        let cached = parent.cached.min(at - 1);
        let child = SequenceEntry {
            state,
            draw,
            sampling: parent.sampling,
            stop_tokens: parent.stop_tokens.clone(),
            max_new_tokens: parent.max_new_tokens,
            top: 0,
            listed: Vec::new(),
            constraint: None,
            cached,
            cache: parent.cache.prefix(cached),
        };
        Ok(self.insert(child))
    }
    /// Ends a running turn early, as if its limit were reached.
    pub fn stop(&mut self, id: SequenceId) {
        self.entry_mut(id).state.finish.get_or_insert(SequenceFinish::Length);
    }
    /// Resumes a turn, as [`super::Generator::resume`].
    pub fn resume(&mut self, id: SequenceId, max_new_tokens: usize) -> Result<()> {
        let entry = self.entry_mut(id);
        if entry.state.finish != Some(SequenceFinish::Length) {
            return Err(Error::invalid(format!(
                "sequence {} did not end at a limit, so its turn cannot be resumed",
                id.0
            )));
        }
        entry.state.finish = None;
        entry.max_new_tokens = max_new_tokens;
        Ok(())
    }
    /// Returns a sequence. Panics if the id was removed or belongs to another sampler.
    pub fn sequence(&self, id: SequenceId) -> &SequenceState {
        &self.entry(id).state
    }
    /// Returns the most probable tokens that were listed for a sequence.
    pub fn listed(&self, id: SequenceId) -> &[Vec<(u32, f32)>] {
        &self.entry(id).listed
    }
    /// Removes and returns a sequence; its forks remain.
    pub fn remove(&mut self, id: SequenceId) -> SequenceState {
        self.entries.remove(&id).unwrap_or_else(|| panic!("there is no sequence {}", id.0)).state
    }
    /// Returns the sequences that are sampling, in id order.
    pub fn running(&mut self) -> impl Iterator<Item = (SequenceId, &mut SequenceEntry<C>)> {
        self.entries.iter_mut().filter(|(_, e)| e.state.finish.is_none()).map(|(id, e)| (*id, e))
    }
    /// Returns the number of sequences that are sampling.
    pub fn running_count(&self) -> usize {
        self.entries.values().filter(|e| e.state.finish.is_none()).count()
    }
    /// Returns the sequences of `ids` whose turn is over, in the order of `ids`.
    pub fn finished(&self, ids: Vec<SequenceId>) -> Vec<(SequenceId, SequenceFinish)> {
        ids.into_iter().filter_map(|id| self.entries[&id].state.finish.map(|f| (id, f))).collect()
    }
    /// Checks token ids. Errors: data, naming a token that the model or its tokenizer lacks.
    pub fn check_tokens(&self, tokens: &[u32]) -> Result<()> {
        self.config.expect_tokens(tokens)
    }
    /// Returns a sequence, or `None` if it was removed.
    pub fn find(&mut self, id: SequenceId) -> Option<&mut SequenceEntry<C>> {
        self.entries.get_mut(&id)
    }
    pub fn entry_mut(&mut self, id: SequenceId) -> &mut SequenceEntry<C> {
        self.entries.get_mut(&id).unwrap_or_else(|| panic!("there is no sequence {}", id.0))
    }

    fn check_length(&self, length: usize) -> Result<()> {
        if length < self.positions() {
            return Ok(());
        }
        Err(Error::invalid(format!("{length} tokens leave no position to sample: the model has {}", self.positions()))
            .help("shorten the prompt or the observations, or raise max_position_embeddings"))
    }
    fn insert(&mut self, entry: SequenceEntry<C>) -> SequenceId {
        let id = SequenceId(self.next);
        self.next += 1;
        self.entries.insert(id, entry);
        id
    }
    fn entry(&self, id: SequenceId) -> &SequenceEntry<C> {
        self.entries.get(&id).unwrap_or_else(|| panic!("there is no sequence {}", id.0))
    }
}

/// Groups running sequences that have equal tokens and no cache, so that each group is computed once. Every other
/// sequence is a separate group.
pub fn groups<'a, C>(running: impl Iterator<Item = &'a mut SequenceEntry<C>>) -> Vec<Vec<&'a mut SequenceEntry<C>>> {
    let mut groups: Vec<Vec<&'a mut SequenceEntry<C>>> = Vec::new();
    let mut first: BTreeMap<Vec<u32>, usize> = BTreeMap::new();
    for entry in running {
        if entry.cached == 0 {
            if let Some(&group) = first.get(&entry.state.token_ids) {
                groups[group].push(entry);
                continue;
            }
            first.insert(entry.state.token_ids.clone(), groups.len());
        }
        groups.push(vec![entry]);
    }
    groups
}
