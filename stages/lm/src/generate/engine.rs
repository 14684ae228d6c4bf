//! Implements the generator: its sequences, and one decoding step for all sequences that sample.
//!
//! A sequence is a function of its tokens, its [`DrawKey`], its sampling options and the weights, so callers may batch
//! sequences in any way. A step computes the tokens without cached keys and values (a new prompt, an observation, the
//! token drawn before), then draws one token per sequence. Sequences that start with equal tokens in one step are
//! computed once and share cache blocks. The engine handles stop tokens, limits and forks; callers handle text and
//! tools.

use super::cache::KvBlocks;
use super::constraint::TokenConstraint;
use super::decode::{decode, share};
use super::forward::ForwardScratch;
use super::kernels::Isa;
use super::pack::{LoraSource, PackedModel, WeightSource};
use super::sequence::{DrawKey, SequenceFinish, SequenceId, SequenceRequest, SequenceState};
use super::sequence_table::{SequenceTable, groups};
use crate::adapter::Adapter;
use crate::config::ModelConfig;
use rayon::prelude::*;
use trainyard_core::{Error, Result};

/// The inference engine.
pub struct Generator {
    pub(super) model: PackedModel,
    pub(super) isa: Isa,
    pub(super) scratches: Vec<ForwardScratch>,
    pool: Option<rayon::ThreadPool>,
    config: ModelConfig,
    /// Rank and scale of the adapter, for models that have one.
    adapter: Option<(usize, f64)>,
    pub(super) sequences: SequenceTable<KvBlocks>,
}

impl Generator {
    /// Packs the weights (names and shapes as in a Hugging Face folder). Results do not depend on `threads`.
    ///
    /// Errors: a tensor that is missing, has another shape than the config requires, or cannot be read as f32.
    pub fn new(config: &ModelConfig, weights: &dyn WeightSource, threads: usize) -> Result<Self> {
        Self::with_isa(config, weights, threads, Isa::detect())
    }
    /// Creates a generator with an optional adapter. The adapter is not merged, so [`Self::update`] takes only the
    /// adapter's tensors.
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
        self.model.adapt(&self.config, &LoraSource { tensors, rank, scale })
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
            model: PackedModel::pack(config, weights)?,
            isa,
            scratches: (0..threads).map(|_| ForwardScratch::default()).collect(),
            pool,
            config: config.clone(),
            adapter: None,
            sequences: SequenceTable::new(config),
        })
    }
    /// Replaces the weights; for a model with an adapter, only the adapter's. Sequences in flight keep the keys and
    /// values that the earlier weights computed. Tokens sampled after the call carry `version`; the first weights have
    /// version 0.
    pub fn update(&mut self, weights: &dyn WeightSource, version: u32) -> Result<()> {
        if self.adapter.is_some() {
            self.adapt(weights)?;
        } else {
            self.model = PackedModel::pack(&self.config, weights)?;
        }
        self.sequences.version = version;
        Ok(())
    }
    /// Returns the version of the current weights, as given to [`Self::update`]; 0 for the first.
    pub fn version(&self) -> u32 {
        self.sequences.version
    }
    /// Returns the maximum number of tokens of a sequence.
    pub fn positions(&self) -> usize {
        self.sequences.positions()
    }
    /// Returns the bytes of the keys and values of a sequence of this many tokens, if it shares none with another.
    pub fn cache_bytes(&self, tokens: usize) -> u64 {
        KvBlocks::bytes(tokens, self.model.layers.len(), self.model.shape)
    }
    /// Returns the name of the instruction set in use.
    pub fn instruction_set(&self) -> &'static str {
        self.isa.name()
    }

    /// Adds a sequence that samples from the next [`Self::step`] on.
    ///
    /// Errors: data, for tokens that the model lacks; invalid, for no tokens, a prompt that leaves no position to
    /// sample, sampling options out of range (see `sampling::check`).
    pub fn add(&mut self, request: SequenceRequest) -> Result<SequenceId> {
        self.check_head()?;
        self.sequences.add(request)
    }
    /// Adds `n` samples of one prompt, numbered from `draw.sample` on; the prompt is computed once.
    pub fn add_group(&mut self, request: &SequenceRequest, n: usize) -> Result<Vec<SequenceId>> {
        let numbered = |i| DrawKey { sample: request.draw.sample + i, ..request.draw };
        (0..n as u64).map(|i| self.add(SequenceRequest { draw: numbered(i), ..request.clone() })).collect()
    }
    /// Adds observation tokens to a finished turn and opens the next turn, with a new limit.
    ///
    /// Errors: data, for tokens that the model lacks; invalid, if the sequence is still sampling or ended with NaN, for
    /// no tokens, or for more than [`Self::room`] tokens. The sequence is then unchanged.
    pub fn append(&mut self, id: SequenceId, tokens: &[u32], max_new_tokens: usize) -> Result<()> {
        self.sequences.append(id, tokens, max_new_tokens)
    }
    /// Returns how many tokens can still be appended so that at least one can be sampled after them.
    pub fn room(&self, id: SequenceId) -> usize {
        self.positions().saturating_sub(self.sequence(id).token_ids.len() + 1)
    }
    /// Creates a sequence that shares the first `at` tokens (`1..=len`) and continues with separate draws, under the
    /// parent's sampling options, stop tokens and turn limit (inherited tokens of the turn count). If the prefix ends
    /// with a sampled stop token, the turn is over: the fork is finished and waits for `append`.
    pub fn fork(&mut self, id: SequenceId, at: usize, draw: DrawKey) -> Result<SequenceId> {
        self.sequences.fork(id, at, draw)
    }
    /// Ends a running turn early, as if its limit were reached.
    pub fn stop(&mut self, id: SequenceId) {
        self.sequences.stop(id);
    }
    /// Resumes a turn that ended at its limit, with a new limit.
    ///
    /// Errors (kind invalid): the turn is still sampling, or ended with a stop token.
    pub fn resume(&mut self, id: SequenceId, max_new_tokens: usize) -> Result<()> {
        self.sequences.resume(id, max_new_tokens)
    }
    /// Changes the limit of the current turn.
    pub fn set_limit(&mut self, id: SequenceId, max_new_tokens: usize) {
        self.sequences.entry_mut(id).max_new_tokens = max_new_tokens;
    }
    /// Restricts the rest of the current turn, up to the next observation.
    pub fn constrain(&mut self, id: SequenceId, constraint: Box<dyn TokenConstraint>) {
        self.sequences.entry_mut(id).constraint = Some(constraint);
    }
    /// Lists the `count` most probable tokens for every token of the sequence that is sampled after this call.
    pub fn list_top(&mut self, id: SequenceId, count: usize) {
        self.sequences.entry_mut(id).top = count;
    }
    /// Returns the listed tokens, in the order of the sampled tokens.
    pub fn top(&self, id: SequenceId) -> &[Vec<(u32, f32)>] {
        self.sequences.listed(id)
    }
    /// Returns a sequence. Panics if the id was removed or belongs to another generator.
    pub fn sequence(&self, id: SequenceId) -> &SequenceState {
        self.sequences.sequence(id)
    }
    /// Removes and returns a sequence and frees its cache; its forks remain.
    pub fn remove(&mut self, id: SequenceId) -> SequenceState {
        self.sequences.remove(id)
    }
    /// Returns the number of sequences that are sampling.
    pub fn running(&self) -> usize {
        self.sequences.running_count()
    }
    /// Runs steps until no sequence is sampling.
    pub fn run(&mut self) -> Result<()> {
        while self.running() > 0 {
            self.step()?;
        }
        Ok(())
    }
    /// Adds all requests, runs them to the end and removes them in their order. Other sequences advance too.
    pub fn generate(&mut self, requests: Vec<SequenceRequest>) -> Result<Vec<SequenceState>> {
        let ids: Vec<_> = requests.into_iter().map(|r| self.add(r)).collect::<Result<_>>()?;
        self.run()?;
        Ok(ids.into_iter().map(|id| self.remove(id)).collect())
    }

    /// Draws one token for every running sequence. Returns the sequences that finished, in id order.
    pub fn step(&mut self) -> Result<Vec<(SequenceId, SequenceFinish)>> {
        let longest = self.sequences.running().map(|(_, e)| e.state.token_ids.len()).max().unwrap_or(0);
        self.model.reserve(longest);
        let version = self.sequences.version;
        let (ids, running): (Vec<SequenceId>, Vec<_>) = self.sequences.running().unzip();
        let groups = groups(running.into_iter());
        let (model, isa, scratches) = (&self.model, self.isa, &mut self.scratches[..]);
        match &self.pool {
            None => decode(model, isa, version, groups, scratches),
            Some(pool) if model.exceeds_cache() => pool.install(|| decode(model, isa, version, groups, scratches)),
            Some(pool) => {
                let shares = share(groups, scratches.len());
                let tasks: Vec<_> = shares.into_iter().zip(scratches.chunks_mut(1)).collect();
                let run = |(share, scratch): (_, &mut [ForwardScratch])| decode(model, isa, version, share, scratch);
                pool.install(|| tasks.into_par_iter().for_each(run));
            }
        }
        Ok(self.sequences.finished(ids))
    }

    /// Runs `work` on every item of every share, one share per thread.
    pub(super) fn parallel<T: Send, R: Send>(
        &mut self,
        shares: Vec<T>,
        work: impl Fn(&PackedModel, Isa, T, &mut ForwardScratch) -> R + Sync,
    ) -> Vec<R> {
        let (model, isa) = (&self.model, self.isa);
        let tasks: Vec<_> = shares.into_iter().zip(&mut self.scratches).collect();
        match &self.pool {
            None => tasks.into_iter().map(|(share, scratch)| work(model, isa, share, scratch)).collect(),
            Some(pool) => pool
                .install(|| tasks.into_par_iter().map(|(share, scratch)| work(model, isa, share, scratch)).collect()),
        }
    }
    pub(super) fn check_head(&self) -> Result<()> {
        if self.model.head.is_some() { Ok(()) } else { Err(no_language_head()) }
    }
}

pub(crate) fn no_language_head() -> Error {
    Error::invalid("the model has no language head: it can score, not sample").help("use a `…ForCausalLM` model")
}
