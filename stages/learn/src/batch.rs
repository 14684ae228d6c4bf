//! The data that parts read: rollouts, groups and batches.
//!
//! A [`Rollout`] is made once, when its episode ends. Parts read it by reference and put what they compute into grids
//! beside it. All per-token lists of a rollout have the same length, prompt included; a token counts where `mask` is
//! true.

use serde::{Deserialize, Serialize};
use trainyard_tables::{Status, StopReason, Trajectory};

/// `[sequence][token]`; each row is as long as its sequence.
pub type Grid = Vec<Vec<f64>>;

/// Where one agent turn lies and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TurnSummary {
    /// Index of the turn's first token in the rollout.
    pub first: usize,
    /// Index behind the turn's last token.
    pub end: usize,
    /// Complete, well-formed tool calls.
    pub calls: u32,
    /// Tool calls that failed or could not be parsed.
    pub errors: u32,
    /// The turn gave a final answer.
    pub answered: bool,
    /// The turn spoke to a simulated user, who replied.
    #[serde(default)]
    pub spoken: bool,
    /// The turn ended at a token limit.
    pub truncated: bool,
}

impl TurnSummary {
    /// The same turn with so many tokens before it.
    pub fn later(&self, tokens: usize) -> Self {
        Self { first: self.first + tokens, end: self.end + tokens, ..self.clone() }
    }
    /// The turn has neither a complete tool call nor a final answer (SimpleTIR, 2509.02479) and, where there is a user,
    /// nothing that the user replied to.
    pub fn is_void(&self) -> bool {
        self.calls == 0 && !self.answered && !self.spoken
    }
}

/// What the calls of a program came to that keeps the conversation itself; all zero where none does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProgramCalls {
    /// Conversations that were begun.
    pub segments: u32,
    /// Turns that went on with their recorded tokens, though their messages would have come out as others.
    pub healed: u32,
    /// Segments that repeat a turn of an earlier one: the program went back, or rewrote what was said.
    pub forked: u32,
    /// Calls without an answer because the episode had ended, and answers that nobody waited for.
    pub dropped: u32,
    /// Calls that were refused with an error.
    pub refused: u32,
    /// Calls that asked for a way of sampling that is not the policy's.
    pub ignored: u32,
}

/// One finished episode: its row of the `trajectories` artifact, and what the row does not hold.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Rollout {
    /// The row that is written; the loop enters rewards and verdicts here.
    pub trajectory: Trajectory,
    /// Index of its problem in the pool.
    pub problem: usize,
    /// Index of its group in the batch.
    pub group: usize,
    /// Index among all rollouts of its step, in the order of writing.
    pub place: usize,
    /// One summary per agent turn, in order.
    pub turns: Vec<TurnSummary>,
    /// The environment's verifier accepts the answer.
    pub correct: bool,
    /// Masked tokens before this index come from a demonstration and not from the policy; 0 = none do.
    pub given: usize,
    /// It was sampled with a text in its prompt (such as a rubric) that the row and the update leave out.
    pub scaffolded: bool,
    /// Number of the sample that it was forked from; none if it started from the prompt.
    pub fork_of: Option<u32>,
    /// Of an episode whose conversation a program keeps.
    #[serde(default)]
    pub calls: ProgramCalls,

    /// Tokens in the loss: the row's mask without the tokens that filters masked.
    pub mask: Vec<bool>,
    /// Natural log of the sampling probability; 0 where the row's mask is false.
    pub old_logprobs: Vec<f64>,
    /// Entropy in nats when sampled; 0 where the row's mask is false. None if not recorded.
    pub entropies: Option<Vec<f64>>,
    /// Predictions of the value model before the update; none without one.
    pub values: Option<Vec<f64>>,
    /// Mean logprob of the gold answer at the start of every turn, if a part needs forced scores. Shorter than the list
    /// of turns if there is no answer or no room for it.
    pub gold_logprobs: Option<Vec<f64>>,
}

impl Rollout {
    /// The rollout of a row, with the columns that formulas read.
    pub fn new(trajectory: Trajectory) -> Self {
        let mask = trajectory.loss_mask.clone();
        let mut rollout = Self { trajectory, mask, ..Self::default() };
        rollout.widen();
        rollout
    }
    /// Replaces the log-probabilities and entropies that the row records; none = not known.
    pub fn set_scores(&mut self, logprobs: Vec<f32>, entropies: Option<Vec<f32>>) {
        self.trajectory.logprobs = Some(logprobs);
        self.trajectory.entropies = entropies;
        self.widen();
    }
    /// Copies the row's scores as f64, in which all formulas compute.
    fn widen(&mut self) {
        let wide = |list: &Vec<f32>| list.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>();
        self.old_logprobs = self.trajectory.logprobs.as_ref().map(wide).unwrap_or_default();
        self.entropies = self.trajectory.entropies.as_ref().map(wide);
    }

    /// Number of tokens in the loss.
    pub fn loss_tokens(&self) -> usize {
        self.mask.iter().filter(|m| **m).count()
    }
    /// The infrastructure ended it. Such a rollout is recorded, but neither scored nor learned from.
    pub fn failed(&self) -> bool {
        self.trajectory.status == Status::Infrastructure
    }
    /// The episode ended at a token limit.
    pub fn truncated(&self) -> bool {
        self.trajectory.stop_reason == StopReason::Length
    }
    /// The episode or one of its turns ended at a token limit.
    pub fn cut_off(&self) -> bool {
        self.truncated() || self.turns.iter().any(|t| t.truncated)
    }
    /// Tokens that the policy sampled, those shared with the rollout it was forked from included.
    pub fn sampled(&self) -> usize {
        self.masked_from(self.given)
    }
    /// Tokens that were sampled for this episode alone.
    pub fn own(&self) -> usize {
        self.masked_from(self.trajectory.fork_at.map_or(self.given, |at| at as usize))
    }
    fn masked_from(&self, first: usize) -> usize {
        self.trajectory.loss_mask.iter().skip(first).filter(|m| **m).count()
    }
}

/// The rollouts of one problem in one step; they share a baseline.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Group {
    /// Index of the problem in the pool.
    pub problem: usize,
    /// Difficulty level of the problem.
    pub level: u32,
    /// Finished rollouts of the problem; in a [`Batch`], those that the filters left.
    pub rollouts: Vec<Rollout>,
}

/// The rollouts that passed the filters of one step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    /// Number of the step in the run, from 0.
    pub step: u64,
    /// Groups in the order in which their problems were drawn.
    pub groups: Vec<Group>,
}

impl Batch {
    /// Rollouts in group order; the order of every `[rollout]` list that parts return.
    pub fn rollouts(&self) -> impl Iterator<Item = &Rollout> {
        self.groups.iter().flat_map(|g| &g.rollouts)
    }
    /// Number of rollouts in all groups.
    pub fn len(&self) -> usize {
        self.groups.iter().map(|g| g.rollouts.len()).sum()
    }
    /// No rollout is left.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// A zero for every token of every rollout.
    pub fn zeros(&self) -> Grid {
        self.rollouts().map(|r| vec![0.0; r.mask.len()]).collect()
    }
    /// Gives every masked token of a rollout the rollout's number, and 0 to all others.
    pub fn spread(&self, values: &[f64]) -> Grid {
        self.rollouts().zip(values).map(|(r, &v)| r.mask.iter().map(|&m| if m { v } else { 0.0 }).collect()).collect()
    }
}

/// What a loss term sees: the sequences of one minibatch under the current weights. All grids have the shape of `mask`;
/// a value is meaningful only where the mask is true. Lists that no part needs are `None`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TokenBatch {
    /// `[sequence][token]`: true for tokens in the loss.
    pub mask: Vec<Vec<bool>>,
    /// Logprobs under the current weights.
    pub logprobs: Grid,
    /// Logprobs in the denominator of the ratio: those of the sampling policy or, with a correction, of the policy just
    /// before this step's updates.
    pub old_logprobs: Grid,
    /// Constants of the loss: after modulations, without gradient.
    pub advantages: Grid,
    /// Aggregation weights ([`crate::aggregate`]): the loss is Σ weight·token loss.
    pub weights: Grid,
    /// Importance weights of stale or foreign samples ([`crate::corrections`]); 1 everywhere if none.
    pub correction: Option<Grid>,
    /// Logprobs under the reference policy.
    pub reference: Option<Grid>,
    /// Entropies in nats under the current weights.
    pub entropies: Option<Grid>,
    /// Predictions of the value model under its current weights.
    pub values: Option<Grid>,
    /// Predictions of the value model before this step's updates.
    pub old_values: Option<Grid>,
    /// Targets of the value model, from [`crate::Advantage::returns`].
    pub returns: Option<Grid>,
    /// Group of each sequence, for terms that compare within a group.
    pub groups: Vec<usize>,
    /// Reward of each sequence.
    pub rewards: Vec<f64>,
    /// The final answer of each sequence was verified.
    pub correct: Vec<bool>,
    /// Share of verified answers in each sequence's group, over all its rollouts that entered the update.
    pub pass_rates: Vec<f64>,
    /// Half-open token range of every agent turn, per sequence.
    pub turns: Vec<Vec<(usize, usize)>>,
    /// Another number in every minibatch, from which terms that choose tokens at random make their
    /// [`trainyard_core::Chance`].
    pub seed: u64,
}

impl TokenBatch {
    /// (sequence, token) of every token in the loss, in index order.
    pub fn places(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.mask
            .iter()
            .enumerate()
            .flat_map(|(i, row)| row.iter().enumerate().filter(|(_, m)| **m).map(move |(t, _)| (i, t)))
    }
    /// A zero for every token of every sequence.
    pub fn zeros(&self) -> Grid {
        self.mask.iter().map(|row| vec![0.0; row.len()]).collect()
    }
    /// Importance weight of token `t` of sequence `i`; 1 without a correction.
    pub fn importance(&self, i: usize, t: usize) -> f64 {
        self.correction.as_ref().map_or(1.0, |c| c[i][t])
    }
}
