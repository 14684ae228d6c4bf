//! Defines [`Sampler`], the trait of backends that decode with a model.

use super::Parameters;
use crate::generate::{
    DrawKey, SequenceFinish, SequenceId, SequenceLogprobs, SequenceRequest, SequenceState, TokenConstraint,
};
use trainyard_core::{Error, Result};
use trainyard_tables::SamplingParams;

/// Options of a sampler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SamplerOptions {
    /// Threads for decoding; no result depends on their number.
    pub threads: usize,
}

/// Decodes many sequences together, turn by turn.
///
/// A sequence is a function of its tokens, its [`DrawKey`], its sampling options and the weights, and does not depend
/// on the other sequences that are decoded at the same time. Tokens are only appended. Methods that take an id panic if
/// the sequence was removed or belongs to another sampler.
pub trait Sampler: Send {
    /// Adds a sequence that samples from the next [`Sampler::step`] on.
    ///
    /// Errors: invalid, if the request has no tokens, tokens outside the vocabulary, or no position left to sample.
    fn start(&mut self, request: SequenceRequest) -> Result<SequenceId>;
    /// Creates a sequence that shares the first `at` tokens (1 to its length) and continues with separate draws.
    fn fork(&mut self, id: SequenceId, at: usize, draw: DrawKey) -> Result<SequenceId>;
    /// Adds tokens of an observation after a finished turn and opens the next turn, with a new limit.
    ///
    /// Errors: invalid, if the turn still samples or the tokens leave no position to sample; the sequence is then
    /// unchanged.
    fn append(&mut self, id: SequenceId, tokens: &[u32], max_new_tokens: usize) -> Result<()>;
    /// Ends a running turn as if its limit were reached.
    fn pause(&mut self, id: SequenceId);
    /// Resumes a turn that ended at its limit, up to another limit (tokens of the whole turn).
    ///
    /// Errors: invalid, if the turn still samples or ended with a stop token.
    fn resume(&mut self, id: SequenceId, max_new_tokens: usize) -> Result<()>;
    /// Advances every running sequence by a token, or by the tokens received from a remote server within a moment.
    /// Returns the sequences whose turn ended, in id order.
    fn step(&mut self) -> Result<Vec<(SequenceId, SequenceFinish)>>;
    /// Returns the number of sequences that are sampling.
    fn running(&self) -> usize;
    /// Returns the tokens of a sequence with log-probabilities, weights versions, and entropies if the backend offers
    /// them.
    fn sequence(&self, id: SequenceId) -> &SequenceState;
    /// Returns whether the backend supports constraints.
    fn supports_constraints(&self) -> bool {
        false
    }
    /// Restricts the tokens that a sequence samples up to the end of its turn. Log-probabilities are those among the
    /// permitted tokens.
    ///
    /// Errors: invalid, if the backend does not support constraints.
    fn constrain(&mut self, _id: SequenceId, _constraint: Box<dyn TokenConstraint>) -> Result<()> {
        Err(Error::invalid("this backend does not sample output of a given form")
            .help("use the backend `cpu` or `candle`"))
    }
    /// Lists the `count` most probable tokens for every token of a sequence that is sampled after this call.
    ///
    /// Errors: invalid, if the backend does not support such lists.
    fn list_top(&mut self, _id: SequenceId, _count: usize) -> Result<()> {
        Err(Error::invalid("this backend does not list the most probable tokens").help("use the backend `cpu`"))
    }
    /// Returns the listed tokens, with the recorded kind of log-probabilities, in the order of the sampled tokens.
    fn top(&self, _id: SequenceId) -> &[Vec<(u32, f32)>] {
        &[]
    }
    /// Removes and returns a sequence; its forks remain.
    fn remove(&mut self, id: SequenceId) -> SequenceState;
    /// Returns the maximum number of tokens of a sequence.
    fn positions(&self) -> usize;
    /// Returns the bytes of the keys and values of a sequence of this many tokens; 0 if a server keeps them.
    fn cache_bytes(&self, tokens: usize) -> u64;

    /// Replaces the weights; for a model with an adapter, only the adapter's. Sequences in flight keep the keys and
    /// values that the earlier weights computed. Tokens sampled after the call carry `version`.
    fn set_weights(&mut self, weights: &Parameters, version: u32) -> Result<()>;
    /// Returns the version of the weights in use; 0 at first.
    fn version(&self) -> u32;

    /// Returns teacher-forced log-probabilities and entropies under `sampling`, bit-equal to those that sampling these
    /// tokens would have recorded.
    fn logprobs_of(&mut self, sequences: &[&[u32]], sampling: &SamplingParams) -> Result<Vec<SequenceLogprobs>>;
    /// Returns the outputs of the scoring head per position; 0 without one.
    fn score_labels(&self) -> usize;
    /// Returns raw outputs of the scoring head at ascending positions: `positions.len() * score_labels()` numbers per
    /// sequence.
    ///
    /// Errors: invalid, if the model has no scoring head.
    fn score(&mut self, sequences: &[&[u32]], positions: &[&[u32]]) -> Result<Vec<Vec<f32>>>;
}
