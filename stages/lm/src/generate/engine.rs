//! The generator: the sequences it holds, and one decoding step for all that sample.
//!
//! A sequence is a function of its tokens, its [`DrawKey`] and the weights, so callers may batch as they like. A step
//! computes the tokens without cached keys and values (a new prompt, an observation, the token drawn before), then
//! draws one token per sequence. Sequences that start with equal tokens in one step are computed once and share cache
//! blocks. Rows are spread over threads by sequence. Stop tokens, limits and forks are handled here; text and tools
//! are the callers' business.

use super::cache::Blocks;
use super::decode::{Entry, decode, groups, share};
use super::forward::Scratch;
use super::kernels::Isa;
use super::pack::{LowRank, Model, WeightSource};
use super::sampling;
use super::sequence::{DrawKey, Finish, Request, SequenceId, SequenceState};
use crate::adapter::Adapter;
use crate::config::ModelConfig;
use rayon::prelude::*;
use std::collections::BTreeMap;
use trainyard_core::{Error, Result};

/// The inference engine.
pub struct Generator {
    pub(super) model: Model,
    pub(super) isa: Isa,
    pub(super) scratches: Vec<Scratch>,
    pool: Option<rayon::ThreadPool>,
    config: ModelConfig,
    /// Rank and scale of the adapter, if there is one.
    adapter: Option<(usize, f64)>,
    entries: BTreeMap<SequenceId, Entry>,
    next: u64,
    version: u32,
}

impl Generator {
    /// Packs the weights (names and shapes as in a Hugging Face folder). Results do not depend on `threads`.
    ///
    /// Errors: a tensor that is missing, has another shape than the config says, or cannot be read as f32.
    pub fn new(config: &ModelConfig, weights: &dyn WeightSource, threads: usize) -> Result<Self> {
        Self::with_isa(config, weights, threads, Isa::detect())
    }
    /// The same with an adapter, if one is given. It is not merged, so [`Self::update`] takes the adapter's tensors
    /// alone.
    ///
    /// Errors: as [`Self::new`], and an adapter that does not fit the model.
    pub fn adapted(
        config: &ModelConfig,
        weights: &dyn WeightSource,
        adapter: Option<&Adapter>,
        threads: usize,
    ) -> Result<Self> {
        let mut generator = Self::new(config, weights, threads)?;
        if let Some(adapter) = adapter {
            adapter.check(config)?;
            generator.adapter = Some((adapter.rank, adapter.scale()));
            generator.adapt(&adapter.tensors)?;
        }
        Ok(generator)
    }
    fn adapt(&mut self, tensors: &dyn WeightSource) -> Result<()> {
        let Some((rank, scale)) = self.adapter else { return Ok(()) };
        self.model.adapt(&self.config, &LowRank { tensors, rank, scale })
    }
    pub(super) fn with_isa(config: &ModelConfig, weights: &dyn WeightSource, threads: usize, isa: Isa) -> Result<Self> {
        let threads = threads.max(1);
        let build =
            || rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|i| format!("generate-{i}")).build();
        let pool = if threads == 1 {
            None
        } else {
            Some(build().map_err(|e| Error::retryable(format!("cannot start threads for decoding: {e}")))?)
        };
        Ok(Self {
            model: Model::pack(config, weights)?,
            isa,
            scratches: (0..threads).map(|_| Scratch::default()).collect(),
            pool,
            config: config.clone(),
            adapter: None,
            entries: BTreeMap::new(),
            next: 0,
            version: 0,
        })
    }
    /// Replaces the weights, those of the adapter alone if there is one. Sequences in flight keep their cached keys and
    /// values, as the weights before computed them; tokens sampled from now on carry `version`. The first weights have
    /// version 0.
    pub fn update(&mut self, weights: &dyn WeightSource, version: u32) -> Result<()> {
        if self.adapter.is_some() {
            self.adapt(weights)?;
        } else {
            self.model = Model::pack(&self.config, weights)?;
        }
        self.version = version;
        Ok(())
    }
    /// Version of the weights that sample now, as given to [`Self::update`]; 0 for the first.
    pub fn version(&self) -> u32 {
        self.version
    }
    /// Most tokens of a sequence.
    pub fn positions(&self) -> usize {
        self.model.positions
    }
    /// Bytes that the keys and values of a sequence of so many tokens take, if it shares none with another.
    pub fn cache_bytes(&self, tokens: usize) -> u64 {
        Blocks::bytes(tokens, self.model.layers.len(), self.model.shape)
    }
    /// Name of the instruction set in use.
    pub fn instruction_set(&self) -> &'static str {
        self.isa.name()
    }

    /// Adds a sequence that samples from the next [`Self::step`] on.
    ///
    /// Errors (kind invalid): no tokens, tokens outside the vocabulary, a prompt that leaves no position to sample,
    /// sampling options out of range (see `sampling::check`).
    pub fn add(&mut self, request: Request) -> Result<SequenceId> {
        self.check_head()?;
        if request.tokens.is_empty() {
            return Err(Error::invalid("a prompt needs at least one token"));
        }
        self.check_tokens(&request.tokens)?;
        self.check_length(request.tokens.len())?;
        sampling::check(&request.sampling)?;
        Ok(self.insert(Entry {
            state: SequenceState::given(&request.tokens, self.version),
            draw: request.draw,
            sampling: request.sampling,
            stop_tokens: request.stop_tokens,
            max_new_tokens: request.max_new_tokens,
            cached: 0,
            blocks: Blocks::default(),
        }))
    }
    /// `n` samples of one prompt, numbered from `draw.sample` on; the prompt is computed once.
    pub fn add_group(&mut self, request: &Request, n: usize) -> Result<Vec<SequenceId>> {
        let numbered = |i| DrawKey { sample: request.draw.sample + i, ..request.draw };
        (0..n as u64).map(|i| self.add(Request { draw: numbered(i), ..request.clone() })).collect()
    }
    /// Adds observation tokens to a finished turn and samples on: the next turn, a new limit.
    ///
    /// Errors (kind invalid): the sequence is still sampling or ended with NaN, no tokens, tokens outside the
    /// vocabulary, or more than [`Self::room`] tokens; the sequence is then unchanged.
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
            Some(Finish::Nan) => {
                return Err(Error::data(format!("sequence {} ended with logits that are not finite", id.0)));
            }
            Some(Finish::Stop(_) | Finish::Length) => {}
        }
        self.check_length(state.token_ids.len() + tokens.len())?;
        let version = self.version;
        let entry = self.entry_mut(id);
        let turn = entry.state.current_turn() + 1;
        entry.state.extend(tokens, turn, version);
        entry.state.finish = None;
        entry.max_new_tokens = max_new_tokens;
        Ok(())
    }
    /// Tokens that can still be appended so that at least one can be sampled after them.
    pub fn room(&self, id: SequenceId) -> usize {
        self.model.positions.saturating_sub(self.entry(id).state.token_ids.len() + 1)
    }
    /// A new sequence that shares the first `at` tokens (`1..=len`) and goes on with its own draws, under the parent's
    /// sampling, stop tokens and turn limit (inherited tokens of the turn count). If the prefix ends with a stop token
    /// that was sampled, the turn is over: the fork is finished and waits for `append`.
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
            state.finish = Some(Finish::Stop(last));
        }
        // The last token is computed again: its logits are not kept.
        let cached = parent.cached.min(at - 1);
        let child = Entry {
            state,
            draw,
            sampling: parent.sampling,
            stop_tokens: parent.stop_tokens.clone(),
            max_new_tokens: parent.max_new_tokens,
            cached,
            blocks: parent.blocks.prefix(cached),
        };
        Ok(self.insert(child))
    }
    /// Ends a running turn early, as if its limit were reached.
    pub fn stop(&mut self, id: SequenceId) {
        self.entry_mut(id).state.finish.get_or_insert(Finish::Length);
    }
    /// Resumes a turn that ended at its limit, with a new limit.
    ///
    /// Errors (kind invalid): the turn is still sampling, or ended with a stop token.
    pub fn resume(&mut self, id: SequenceId, max_new_tokens: usize) -> Result<()> {
        let entry = self.entry_mut(id);
        if entry.state.finish != Some(Finish::Length) {
            return Err(Error::invalid(format!(
                "sequence {} did not end at a limit, so its turn cannot be resumed",
                id.0
            )));
        }
        entry.state.finish = None;
        entry.max_new_tokens = max_new_tokens;
        Ok(())
    }
    /// Changes the limit of the current turn.
    pub fn set_limit(&mut self, id: SequenceId, max_new_tokens: usize) {
        self.entry_mut(id).max_new_tokens = max_new_tokens;
    }
    /// Panics if the id was removed or belongs to another generator.
    pub fn sequence(&self, id: SequenceId) -> &SequenceState {
        &self.entry(id).state
    }
    /// Takes a sequence out and frees its cache; forks of it live on.
    pub fn remove(&mut self, id: SequenceId) -> SequenceState {
        self.entries.remove(&id).unwrap_or_else(|| panic!("sequence {} is not here", id.0)).state
    }
    /// Number of sequences that are sampling.
    pub fn running(&self) -> usize {
        self.entries.values().filter(|e| e.state.finish.is_none()).count()
    }
    /// Steps until no sequence is sampling.
    pub fn run(&mut self) -> Result<()> {
        while self.running() > 0 {
            self.step()?;
        }
        Ok(())
    }
    /// Adds all requests, runs them to the end and takes them out in their order. Other sequences advance too.
    pub fn generate(&mut self, requests: Vec<Request>) -> Result<Vec<SequenceState>> {
        let ids: Vec<_> = requests.into_iter().map(|r| self.add(r)).collect::<Result<_>>()?;
        self.run()?;
        Ok(ids.into_iter().map(|id| self.remove(id)).collect())
    }

    /// Draws one token for every running sequence. Returns those that finished, in id order.
    pub fn step(&mut self) -> Result<Vec<(SequenceId, Finish)>> {
        let running: Vec<SequenceId> =
            self.entries.iter().filter(|(_, e)| e.state.finish.is_none()).map(|(id, _)| *id).collect();
        let longest = running.iter().map(|id| self.entries[id].state.token_ids.len()).max().unwrap_or(0);
        self.model.reserve(longest);
        let groups = groups(self.entries.values_mut().filter(|e| e.state.finish.is_none()));
        let shares = share(groups, self.scratches.len());
        let (model, isa, version) = (&self.model, self.isa, self.version);
        let tasks = shares.into_iter().zip(&mut self.scratches);
        match &self.pool {
            None => tasks.for_each(|(share, scratch)| decode(model, isa, version, share, scratch)),
            Some(pool) => {
                let tasks: Vec<_> = tasks.collect();
                pool.install(|| {
                    tasks.into_par_iter().for_each(|(share, scratch)| decode(model, isa, version, share, scratch))
                });
            }
        }
        Ok(running.into_iter().filter_map(|id| self.entries[&id].state.finish.map(|f| (id, f))).collect())
    }

    /// Runs `work` on every item of every share, one share per thread.
    pub(super) fn parallel<T: Send, R: Send>(
        &mut self,
        shares: Vec<T>,
        work: impl Fn(&Model, Isa, T, &mut Scratch) -> R + Sync,
    ) -> Vec<R> {
        let (model, isa) = (&self.model, self.isa);
        let tasks: Vec<_> = shares.into_iter().zip(&mut self.scratches).collect();
        match &self.pool {
            None => tasks.into_iter().map(|(share, scratch)| work(model, isa, share, scratch)).collect(),
            Some(pool) => pool
                .install(|| tasks.into_par_iter().map(|(share, scratch)| work(model, isa, share, scratch)).collect()),
        }
    }
    pub(super) fn check_tokens(&self, tokens: &[u32]) -> Result<()> {
        match tokens.iter().find(|&&t| t as usize >= self.model.vocabulary) {
            None => Ok(()),
            Some(t) => {
                Err(Error::invalid(format!("token {t} is outside the model's vocabulary of {}", self.model.vocabulary))
                    .help("use the tokenizer of the model's folder"))
            }
        }
    }
    pub(super) fn check_head(&self) -> Result<()> {
        if self.model.head.is_some() {
            return Ok(());
        }
        Err(Error::invalid("the model has no language head: it can score, not sample")
            .help("use a `…ForCausalLM` model"))
    }
    fn check_length(&self, length: usize) -> Result<()> {
        if length < self.model.positions {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{length} tokens leave no position to sample: the model has {}",
            self.model.positions
        ))
        .help("shorten the prompt or the observations, or raise max_position_embeddings"))
    }
    fn insert(&mut self, entry: Entry) -> SequenceId {
        let id = SequenceId(self.next);
        self.next += 1;
        self.entries.insert(id, entry);
        id
    }
    fn entry(&self, id: SequenceId) -> &Entry {
        self.entries.get(&id).unwrap_or_else(|| panic!("sequence {} is not here", id.0))
    }
    fn entry_mut(&mut self, id: SequenceId) -> &mut Entry {
        self.entries.get_mut(&id).unwrap_or_else(|| panic!("sequence {} is not here", id.0))
    }
}
