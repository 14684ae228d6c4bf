//! The trait of whatever decodes with a model.

use super::Parameters;
use crate::generate::{DrawKey, Finish, Request, Scored, SequenceId, SequenceState};
use trainyard_core::{Error, Result};
use trainyard_tables::Sampling;

/// How a sampler is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SamplerOptions {
    /// Threads to decode with; no result depends on it.
    pub threads: usize,
}

/// Decodes many sequences together, turn by turn.
///
/// A sequence is a function of its tokens, its [`DrawKey`], its sampling options and the weights: what else is decoded
/// beside it changes nothing. Tokens are only appended. Methods that take an id panic if the sequence was removed or
/// belongs to another sampler.
pub trait Sampler: Send {
    /// Adds a sequence that samples from the next step on.
    ///
    /// Errors: invalid, if there are no tokens, they lie outside the vocabulary, or no position is left to sample.
    fn start(&mut self, request: Request) -> Result<SequenceId>;
    /// A new sequence that shares the first `at` tokens (1 to its length) and goes on with draws of its own.
    fn fork(&mut self, id: SequenceId, at: usize, draw: DrawKey) -> Result<SequenceId>;
    /// Adds tokens of an observation after a finished turn and opens the next turn, with a limit of its own.
    ///
    /// Errors: invalid, if the turn still samples or the tokens leave no position to sample; the sequence is then
    /// unchanged.
    fn append(&mut self, id: SequenceId, tokens: &[u32], max_new_tokens: usize) -> Result<()>;
    /// Ends a running turn as if its limit were reached.
    fn pause(&mut self, id: SequenceId);
    /// Goes on with a turn that ended at its limit, up to another limit (tokens of the whole turn).
    ///
    /// Errors: invalid, if the turn still samples or ended with a stop token.
    fn resume(&mut self, id: SequenceId, max_new_tokens: usize) -> Result<()>;
    /// Goes on with every running sequence by a token, or by what has come of it elsewhere within a moment. Returns the
    /// sequences whose turn ended, in id order.
    fn step(&mut self) -> Result<Vec<(SequenceId, Finish)>>;
    /// Number of sequences that sample.
    fn running(&self) -> usize;
    /// The tokens of a sequence with log-probabilities, weights versions, and entropies if the backend offers them.
    fn sequence(&self, id: SequenceId) -> &SequenceState;
    /// Lists the most probable tokens beside every token of a sequence that is sampled from now on, so many.
    ///
    /// Errors: invalid, if the backend lists none.
    fn list_top(&mut self, _id: SequenceId, _count: usize) -> Result<()> {
        Err(Error::invalid("this backend does not list the most probable tokens").help("use the backend `cpu`"))
    }
    /// Those, with log-probabilities as they are recorded, in the order of the sampled tokens.
    fn top(&self, _id: SequenceId) -> &[Vec<(u32, f32)>] {
        &[]
    }
    /// Takes a sequence out; its forks live on.
    fn remove(&mut self, id: SequenceId) -> SequenceState;
    /// Most tokens of a sequence.
    fn positions(&self) -> usize;
    /// Bytes that the keys and values of a sequence of so many tokens take; 0 if they are kept elsewhere.
    fn cache_bytes(&self, tokens: usize) -> u64;

    /// Replaces the weights; of a model with an adapter, the adapter's alone. Sequences in flight keep what the earlier
    /// weights computed for them; tokens sampled from now on carry `version`.
    fn set_weights(&mut self, weights: &Parameters, version: u32) -> Result<()>;
    /// Version of the weights in use; 0 at first.
    fn version(&self) -> u32;

    /// Teacher-forced log-probabilities and entropies under `sampling`: bit-equal to what sampling these tokens would
    /// have recorded.
    fn logprobs_of(&mut self, sequences: &[&[u32]], sampling: &Sampling) -> Result<Vec<Scored>>;
    /// Outputs of the scoring head per position; 0 if the model has none.
    fn score_labels(&self) -> usize;
    /// Raw outputs of the scoring head at ascending positions: `positions.len() * score_labels()` numbers per sequence.
    ///
    /// Errors: invalid, if the model has no scoring head.
    fn score(&mut self, sequences: &[&[u32]], positions: &[&[u32]]) -> Result<Vec<Vec<f32>>>;
}
