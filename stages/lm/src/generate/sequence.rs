//! Defines requests to the generator and its state per sequence, the token-level half of the rollout record
//! (`docs/design/0005-the-rl-loop.md`).

use trainyard_core::Chance;
use trainyard_tables::SamplingParams;

/// Id of a sequence within one generator; ids are not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(pub u64);

/// Key of the draws of a sequence: the token at position `i` of turn `t` is drawn with `chance.at("sample", &[problem,
/// sample, t, i])`, so it is a function of this key and of the tokens before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DrawKey {
    /// One source per stage seed; an RL loop gives each of its steps a child of it.
    pub chance: Chance,
    /// Number of the problem within the source.
    pub problem: u64,
    /// Number of the sample within the problem.
    pub sample: u64,
}

/// A prompt to continue.
#[derive(Debug, Clone)]
pub struct SequenceRequest {
    /// The prompt; at least one token.
    pub tokens: Vec<u32>,
    /// Source of this sequence's random draws.
    pub draw: DrawKey,
    /// Temperature and truncation, for all turns of the sequence.
    pub sampling: SamplingParams,
    /// Tokens that end a turn. A sampled stop token is the last token of its turn.
    pub stop_tokens: Vec<u32>,
    /// Limit of one turn; 0 only computes the prompt.
    pub max_new_tokens: usize,
}

/// Reason for which a sequence stopped sampling. `append` may continue all sequences but those with `Nan`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SequenceFinish {
    /// This stop token was sampled.
    Stop(u32),
    /// The limit of the turn, or the model's last position.
    Length,
    /// The logits hold NaN or infinity; no token was drawn.
    Nan,
}

/// A token that was sampled under a constraint.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConstrainedToken {
    /// Index in the sequence.
    pub at: usize,
    /// Natural log of its probability without the constraint, at the same temperature and without truncation.
    pub free_logprob: f32,
    /// Whether no other token was permitted.
    pub only: bool,
}

/// Tokens of a sequence with the data of each token. The lists, but for `constrained`, have the same length and include
/// the prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct SequenceState {
    /// Prompt, sampled turns and observations in order.
    pub token_ids: Vec<u32>,
    /// Whether the sampler sampled the token.
    pub loss_mask: Vec<bool>,
    /// Agent turn from 0. The prompt belongs to turn 0, an observation to the turn that it opens.
    pub turn: Vec<u16>,
    /// Natural log of the probability under the distribution that was drawn from, after temperature and truncation; for
    /// greedy tokens under the model's own distribution (temperature 1, no truncation). 0 where the mask is false; NaN
    /// where the sampler does not know it.
    pub logprobs: Vec<f32>,
    /// Entropy of that distribution in nats; 0 where the mask is false. Empty if the sampler provides no entropies.
    pub entropies: Vec<f32>,
    /// Version of the weights that sampled the token; for given tokens the version that computed their keys and values.
    /// (Keys and values of a sampled token are computed together with the token after it.)
    pub weights_version: Vec<u32>,
    /// Sampled tokens of turns with a constraint, in order. Their log-probabilities above are those among the permitted
    /// tokens.
    pub constrained: Vec<ConstrainedToken>,
    /// Tokens of the prompt, at the start of every list.
    pub prompt_tokens: usize,
    /// Reason for which the current turn ended; `None` while the sequence is sampling.
    pub finish: Option<SequenceFinish>,
    /// The parent and the number of tokens shared with the parent, for a fork.
    pub fork_of: Option<(SequenceId, usize)>,
}

impl SequenceState {
    /// Returns the turn of the next token.
    pub fn current_turn(&self) -> u16 {
        self.turn.last().copied().unwrap_or(0)
    }
    /// Returns the tokens sampled in the current turn (a fork inherits those before the fork).
    pub fn sampled_in_turn(&self) -> &[u32] {
        let turn = self.current_turn();
        let start = (0..self.token_ids.len()).rev().take_while(|&i| self.loss_mask[i] && self.turn[i] == turn).last();
        start.map_or(&[], |i| &self.token_ids[i..])
    }
    /// Returns whether the sampler provides entropies.
    fn has_entropies(&self) -> bool {
        self.entropies.len() == self.token_ids.len()
    }
    pub(super) fn given(tokens: &[u32], version: u32) -> Self {
        let mut state = Self {
            token_ids: Vec::new(),
            loss_mask: Vec::new(),
            turn: Vec::new(),
            logprobs: Vec::new(),
            entropies: Vec::new(),
            weights_version: Vec::new(),
            constrained: Vec::new(),
            prompt_tokens: tokens.len(),
            finish: None,
            fork_of: None,
        };
        state.extend(tokens, 0, version);
        state
    }
    /// Adds tokens that were not sampled.
    pub(super) fn extend(&mut self, tokens: &[u32], turn: u16, version: u32) {
        let length = self.token_ids.len() + tokens.len();
        if self.has_entropies() {
            self.entropies.resize(length, 0.0);
        }
        self.token_ids.extend_from_slice(tokens);
        self.loss_mask.resize(length, false);
        self.turn.resize(length, turn);
        self.logprobs.resize(length, 0.0);
        self.weights_version.resize(length, version);
    }
    /// Marks the given tokens from `first` on as computed by these weights.
    pub(crate) fn computed_by(&mut self, version: u32, first: usize) {
        for i in first..self.token_ids.len() {
            if !self.loss_mask[i] {
                self.weights_version[i] = version;
            }
        }
    }
    /// Adds a sampled token; `entropy` is ignored where the sampler provides no entropies.
    pub(super) fn push(&mut self, token: u32, logprob: f32, entropy: f32, version: u32) {
        if self.has_entropies() {
            self.entropies.push(entropy);
        }
        self.turn.push(self.current_turn());
        self.token_ids.push(token);
        self.loss_mask.push(true);
        self.logprobs.push(logprob);
        self.weights_version.push(version);
    }
    /// Returns the first `length` tokens.
    pub(super) fn prefix(&self, length: usize) -> Self {
        Self {
            token_ids: self.token_ids[..length].to_vec(),
            loss_mask: self.loss_mask[..length].to_vec(),
            turn: self.turn[..length].to_vec(),
            logprobs: self.logprobs[..length].to_vec(),
            entropies: self.entropies.get(..length).unwrap_or_default().to_vec(),
            weights_version: self.weights_version[..length].to_vec(),
            constrained: self.constrained.iter().filter(|token| token.at < length).copied().collect(),
            prompt_tokens: self.prompt_tokens.min(length),
            finish: None,
            fork_of: None,
        }
    }
}
