//! The data that parts see: rollouts, groups and batches as plain numbers.
//!
//! Why so: parts must not know tensors, files or chat text; the loop turns a rollout record into [`Rollout`] once. All per-token
//! lists of one rollout have one length, the prompt included; a token counts exactly where `mask` is true. Refuses: padding (rows
//! have their own lengths) and references by name (problems are numbered by their place in the pool).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `[sequence][token]`, rows of their own lengths.
pub type Grid = Vec<Vec<f64>>;

/// What is known of one agent turn.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TurnSummary {
    /// First token of the turn and the token after its last.
    pub first: usize,
    pub end: usize,
    /// Complete, well-formed tool calls.
    pub calls: u32,
    /// Tool calls that failed or could not be parsed.
    pub errors: u32,
    /// The turn gave a final answer.
    pub answered: bool,
    /// The turn was words to a user, who replied.
    #[serde(default)]
    pub spoken: bool,
    /// The turn ended at a token limit.
    pub truncated: bool,
}

impl TurnSummary {
    /// Neither a complete tool call nor a final answer (SimpleTIR, 2509.02479), nor, in worlds with a user, something to reply to.
    pub fn is_void(&self) -> bool {
        self.calls == 0 && !self.answered && !self.spoken
    }
}

/// One finished episode. Parts that keep it save all of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Rollout {
    /// Unique in its run; part state refers to it.
    pub id: String,
    /// Place of its problem in the pool.
    pub problem: usize,
    pub level: u32,
    /// Place of its group in the batch.
    pub group: usize,
    /// Index within the group.
    pub sample: u32,
    /// What was read and written, for the loop; no formula depends on it.
    pub tokens: Vec<u32>,
    /// True = sampled by the policy and part of the loss.
    pub mask: Vec<bool>,
    /// Natural log of the sampling probability; 0 where the mask is false.
    pub old_logprobs: Vec<f64>,
    /// Nats; 0 where the mask is false. None if not recorded.
    pub entropies: Option<Vec<f64>>,
    /// Old value predictions; none without a value head.
    pub values: Option<Vec<f64>>,
    /// First token of its own, and the sample it was forked from; none at roots.
    pub fork_at: Option<usize>,
    pub fork_of: Option<u32>,
    /// Tokens before this one that the mask holds come from a demonstration, not from the policy; 0 = none do.
    pub given: usize,
    /// It was sampled with a text in its prompt (a rubric) that the update does not see.
    pub scaffolded: bool,
    /// Mean logprob of the gold answer at the start of every turn, only where a part needs forced scores. Shorter than the turns where
    /// there is no answer, or no room for it.
    pub gold_logprobs: Option<Vec<f64>>,
    /// Every reward component by name, unweighted.
    pub rewards: BTreeMap<String, f64>,
    /// Weighted sum.
    pub reward: f64,
    /// One per turn; empty if the rewards give none.
    pub turn_rewards: Vec<f64>,
    pub turns: Vec<TurnSummary>,
    /// The final answer was verified.
    pub correct: bool,
    /// The episode ended at a token limit.
    pub truncated: bool,
    pub tool_calls: u32,
    pub tool_errors: u32,
}

impl Rollout {
    /// Number of tokens in the loss.
    pub fn loss_tokens(&self) -> usize {
        self.mask.iter().filter(|m| **m).count()
    }
}

/// The rollouts of one problem in one step; they share a baseline.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Group {
    pub problem: usize,
    pub level: u32,
    pub rollouts: Vec<Rollout>,
}

/// What survived the filters of one step, in index order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    pub step: u64,
    pub groups: Vec<Group>,
}

impl Batch {
    /// Rollouts in group order; the order of every `[rollout]` list that parts return.
    pub fn rollouts(&self) -> impl Iterator<Item = &Rollout> {
        self.groups.iter().flat_map(|g| &g.rollouts)
    }
    pub fn len(&self) -> usize {
        self.groups.iter().map(|g| g.rollouts.len()).sum()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// A zero for every token of every rollout.
    pub fn zeros(&self) -> Grid {
        self.rollouts().map(|r| vec![0.0; r.mask.len()]).collect()
    }
    /// One number per rollout, spread over the tokens of its mask.
    pub fn spread(&self, values: &[f64]) -> Grid {
        self.rollouts().zip(values).map(|(r, &v)| r.mask.iter().map(|&m| if m { v } else { 0.0 }).collect()).collect()
    }
}

/// What a loss term sees: the sequences of one minibatch under the current weights. All grids have the shape of `mask`; a value is
/// meaningful only where the mask is true. Absent lists were not asked for by any part's needs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TokenBatch {
    pub mask: Vec<Vec<bool>>,
    /// Under the current weights.
    pub logprobs: Grid,
    /// The denominator of the ratio: of the sampling policy, or of the policy before this step's updates when a correction is on.
    pub old_logprobs: Grid,
    pub advantages: Grid,
    /// Aggregation weights ([`crate::aggregate`]): the loss is Σ weight·token loss.
    pub weights: Grid,
    /// Importance weights of stale or foreign samples ([`crate::corrections`]); 1 everywhere if none.
    pub correction: Option<Grid>,
    pub reference: Option<Grid>,
    /// Under the current weights.
    pub entropies: Option<Grid>,
    /// Under the current weights, and when sampled.
    pub values: Option<Grid>,
    pub old_values: Option<Grid>,
    pub returns: Option<Grid>,
    /// Group of each sequence, and its reward, for terms that compare within a group.
    pub groups: Vec<usize>,
    pub rewards: Vec<f64>,
    /// The final answer of each sequence was verified.
    pub correct: Vec<bool>,
    /// Share of verified answers in the group of each sequence, over all rollouts of the group that entered the update.
    pub pass_rates: Vec<f64>,
    /// First and end token of every agent turn, per sequence.
    pub turns: Vec<Vec<(usize, usize)>>,
    /// Drawn anew for every minibatch; a term that must choose tokens by chance makes its [`trainyard_core::Chance`] from it.
    pub seed: u64,
}

impl TokenBatch {
    /// Places of all tokens in the loss, in index order.
    pub fn places(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.mask
            .iter()
            .enumerate()
            .flat_map(|(i, row)| row.iter().enumerate().filter(|(_, m)| **m).map(move |(t, _)| (i, t)))
    }
    pub fn zeros(&self) -> Grid {
        self.mask.iter().map(|row| vec![0.0; row.len()]).collect()
    }
    /// The importance weight of a place.
    pub fn importance(&self, i: usize, t: usize) -> f64 {
        self.correction.as_ref().map_or(1.0, |c| c[i][t])
    }
}
