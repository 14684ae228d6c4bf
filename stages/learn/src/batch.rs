//! Defines the data that parts read: rollouts, groups and batches.
//!
//! A [`Rollout`] is created once, when its episode ends. Parts read rollouts by reference and write their results into
//! separate grids. All per-token lists of a rollout have the same length, prompt included; a token counts where `mask`
//! is true.

use serde::{Deserialize, Serialize};
use trainyard_tables::{EpisodeStatus, StopReason, Trajectory};

/// `[sequence][token]`; each row is as long as its sequence.
pub type TokenGrid = Vec<Vec<f64>>;

/// Range of one agent turn and how it ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TurnSummary {
    /// Index of the turn's first token in the rollout.
    pub first: usize,
    /// Exclusive end index of the turn.
    pub end: usize,
    /// Number of complete, well-formed tool calls.
    pub calls: u32,
    /// Number of tool calls that failed or could not be parsed.
    pub errors: u32,
    /// Whether the turn gave a final answer.
    pub answered: bool,
    /// Whether a simulated user replied to the turn.
    #[serde(default)]
    pub spoken: bool,
    /// Whether the turn ended at a token limit.
    pub truncated: bool,
}

impl TurnSummary {
    /// Returns the turn shifted by `tokens` additional tokens before it.
    pub fn shifted(&self, tokens: usize) -> Self {
        Self { first: self.first + tokens, end: self.end + tokens, ..self.clone() }
    }
    /// Returns whether the turn has neither a complete tool call nor a final answer (SimpleTIR, 2509.02479) nor a reply
    /// from a simulated user.
    pub fn is_void(&self) -> bool {
        self.calls == 0 && !self.answered && !self.spoken
    }
}

/// Counts of the requests of a program that keeps the conversation; all zero without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ProgramCalls {
    /// Number of segments that were begun.
    pub segments: u32,
    /// Number of turns that continued with their recorded tokens, although their messages would have been encoded
    /// differently.
    pub healed: u32,
    /// Number of segments that repeat a turn of an earlier one: the program went back, or rewrote its history.
    pub forked: u32,
    /// Number of requests without a response because the episode had ended, and of responses without a waiting client.
    pub dropped: u32,
    /// Number of requests rejected with an error.
    pub refused: u32,
    /// Number of requests with sampling options that differ from the policy's.
    pub ignored: u32,
}

/// One finished episode: its row of the `trajectories` artifact, and data outside the row.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Rollout {
    /// Row to write, including rewards and verdicts.
    pub trajectory: Trajectory,
    /// Index of the problem in the pool.
    pub problem: usize,
    /// Index of the group in the batch.
    pub group: usize,
    /// Index among all rollouts of the step, in the order in which they are written.
    pub place: usize,
    /// One summary per agent turn, in order.
    pub turns: Vec<TurnSummary>,
    /// Whether the environment's verifier accepts the answer.
    pub correct: bool,
    /// Index before which masked tokens come from a demonstration and not from the policy; 0 without such tokens.
    pub given: usize,
    /// Whether the prompt had a text (such as a rubric) that the row and the update leave out.
    pub scaffolded: bool,
    /// Number of the sample that the rollout was forked from; `None` if it started from the prompt.
    pub fork_of: Option<u32>,
    /// Counts of a program that keeps the conversation.
    #[serde(default)]
    pub calls: ProgramCalls,

    /// Whether each token is in the loss: the row's mask without the tokens that filters masked, and without those that
    /// a constraint determined.
    pub mask: Vec<bool>,
    /// Natural log of the sampling probability; 0 where the row's mask is false. For a token that was sampled under a
    /// constraint, that of its probability without the constraint, because losses compute probabilities without it.
    pub old_logprobs: Vec<f64>,
    /// Entropy in nats at sampling; 0 where the row's mask is false. `None` if not recorded.
    pub entropies: Option<Vec<f64>>,
    /// Predictions of the value model before the update; `None` without one.
    pub values: Option<Vec<f64>>,
    /// Mean logprob of the gold answer at the start of every turn, if a part needs forced scores. Shorter than the list
    /// of turns if the problem has no answer or there is no room for it.
    pub gold_logprobs: Option<Vec<f64>>,
}

impl Rollout {
    /// Creates the rollout of a row, with the columns that formulas read.
    pub fn new(trajectory: Trajectory) -> Self {
        let mask = trajectory.loss_mask.clone();
        let mut rollout = Self { trajectory, mask, ..Self::default() };
        rollout.widen();
        rollout
    }
    /// Marks a token as sampled under a constraint, with its log-probability without the constraint. If the constraint
    /// permitted `only` this token, no policy could choose another one, so the token is not in the loss.
    pub fn set_constrained(&mut self, at: usize, free_logprob: f32, only: bool) {
        if let Some(old) = self.old_logprobs.get_mut(at) {
            *old = f64::from(free_logprob);
        }
        if let Some(in_loss) = self.mask.get_mut(at).filter(|_| only) {
            *in_loss = false;
        }
    }
    /// Replaces the log-probabilities and entropies of the row; `None` = unknown entropies.
    pub fn set_scores(&mut self, logprobs: Vec<f32>, entropies: Option<Vec<f32>>) {
        self.trajectory.logprobs = Some(logprobs);
        self.trajectory.entropies = entropies;
        self.widen();
    }
    /// Copies the row's scores as f64, the type of all formulas.
    fn widen(&mut self) {
        let wide = |list: &Vec<f32>| list.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>();
        self.old_logprobs = self.trajectory.logprobs.as_ref().map(wide).unwrap_or_default();
        self.entropies = self.trajectory.entropies.as_ref().map(wide);
    }

    /// Counts the tokens in the loss.
    pub fn loss_tokens(&self) -> usize {
        self.mask.iter().filter(|m| **m).count()
    }
    /// Returns whether the infrastructure ended the rollout. Such a rollout is recorded, but neither scored nor learned
    /// from.
    pub fn failed(&self) -> bool {
        self.trajectory.status == EpisodeStatus::Infrastructure
    }
    /// Returns whether the episode ended at a token limit.
    pub fn truncated(&self) -> bool {
        self.trajectory.stop_reason == StopReason::Length
    }
    /// Returns whether the episode or one of its turns ended at a token limit.
    pub fn cut_off(&self) -> bool {
        self.truncated() || self.turns.iter().any(|t| t.truncated)
    }
    /// Counts the tokens that the policy sampled, including those shared with the rollout it was forked from.
    pub fn sampled_tokens(&self) -> usize {
        self.masked_from(self.given)
    }
    /// Counts the tokens that were sampled for this episode alone.
    pub fn own_tokens(&self) -> usize {
        self.masked_from(self.trajectory.fork_at.map_or(self.given, |at| at as usize))
    }
    fn masked_from(&self, first: usize) -> usize {
        self.trajectory.loss_mask.iter().skip(first).filter(|m| **m).count()
    }
}

/// Rollouts of one problem in one step; they share a baseline.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Group {
    /// Index of the problem in the pool.
    pub problem: usize,
    /// Difficulty level of the problem.
    pub level: u32,
    /// Finished rollouts of the problem; in a [`Batch`], those that passed the filters.
    pub rollouts: Vec<Rollout>,
}

/// Rollouts that passed the filters of one step.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    /// Number of the step in the run, from 0.
    pub step: u64,
    /// Groups in the order in which their problems were drawn.
    pub groups: Vec<Group>,
}

impl Batch {
    /// Returns rollouts in group order; the order of every `[rollout]` list that parts return.
    pub fn rollouts(&self) -> impl Iterator<Item = &Rollout> {
        self.groups.iter().flat_map(|g| &g.rollouts)
    }
    /// Counts the rollouts in all groups.
    pub fn len(&self) -> usize {
        self.groups.iter().map(|g| g.rollouts.len()).sum()
    }
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns a zero for every token of every rollout.
    pub fn zeros(&self) -> TokenGrid {
        self.rollouts().map(|r| vec![0.0; r.mask.len()]).collect()
    }
    /// Assigns each rollout's number to its tokens in the mask, and 0 to all others.
    pub fn spread(&self, values: &[f64]) -> TokenGrid {
        self.rollouts().zip(values).map(|(r, &v)| r.mask.iter().map(|&m| if m { v } else { 0.0 }).collect()).collect()
    }
}

/// Input of a loss term: the sequences of one minibatch under the current weights. All grids have the shape of `mask`;
/// a value is meaningful only where the mask is true. Lists that no part needs are `None`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LossBatch {
    /// `[sequence][token]`: true for tokens in the loss.
    pub mask: Vec<Vec<bool>>,
    /// Logprobs under the current weights.
    pub logprobs: TokenGrid,
    /// Logprobs in the denominator of the ratio: those of the sampling policy or, with a correction, of the policy just
    /// before this step's updates.
    pub old_logprobs: TokenGrid,
    /// Advantages after modulations; constants of the loss, without gradient.
    pub advantages: TokenGrid,
    /// Aggregation weights ([`crate::aggregate`]): the loss is Σ weight·token loss.
    pub weights: TokenGrid,
    /// Importance weights of stale or foreign samples ([`crate::corrections`]); `None` = 1 everywhere.
    pub correction: Option<TokenGrid>,
    /// Logprobs under the reference policy.
    pub reference: Option<TokenGrid>,
    /// Entropies in nats under the current weights.
    pub entropies: Option<TokenGrid>,
    /// Predictions of the value model under the current weights.
    pub values: Option<TokenGrid>,
    /// Predictions of the value model before this step's updates.
    pub old_values: Option<TokenGrid>,
    /// Targets of the value model, from [`crate::Advantage::returns`].
    pub returns: Option<TokenGrid>,
    /// Group of each sequence, for terms that compare within a group.
    pub groups: Vec<usize>,
    /// Reward of each sequence.
    pub rewards: Vec<f64>,
    /// Whether the verifier accepts the final answer of each sequence.
    pub correct: Vec<bool>,
    /// Share of accepted answers in each sequence's group, over all rollouts of the update.
    pub pass_rates: Vec<f64>,
    /// Half-open token range of every agent turn, per sequence.
    pub turns: Vec<Vec<(usize, usize)>>,
    /// Seed of the minibatch. Terms that choose tokens at random make their [`trainyard_core::Chance`] from it.
    pub seed: u64,
}

impl LossBatch {
    /// Returns the (sequence, token) indexes of every token in the loss, in order.
    pub fn places(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.mask
            .iter()
            .enumerate()
            .flat_map(|(i, row)| row.iter().enumerate().filter(|(_, m)| **m).map(move |(t, _)| (i, t)))
    }
    /// Returns a zero for every token of every sequence.
    pub fn zeros(&self) -> TokenGrid {
        self.mask.iter().map(|row| vec![0.0; row.len()]).collect()
    }
    /// Returns the importance weight of token `t` of sequence `i`; 1 without a correction.
    pub fn importance(&self, i: usize, t: usize) -> f64 {
        self.correction.as_ref().map_or(1.0, |c| c[i][t])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constrained_token_has_a_free_logprob_and_is_learned_if_there_was_a_choice() {
        let row = Trajectory {
            loss_mask: vec![false, true, true, true],
            logprobs: Some(vec![0.0, -1.0, 0.0, -0.25]),
            ..Trajectory::default()
        };
        let mut rollout = Rollout::new(row.clone());
        rollout.set_constrained(2, -4.0, true);
        rollout.set_constrained(3, -2.0, false);
        assert_eq!(rollout.old_logprobs, [0.0, -1.0, -4.0, -2.0]);
        assert_eq!(rollout.mask, [false, true, false, true]);
        assert_eq!(rollout.trajectory, row, "the row keeps what was sampled, and from which distribution");
        let mut unknown = Rollout::new(Trajectory { logprobs: None, ..row });
        unknown.set_constrained(3, -2.0, false);
        assert!(unknown.old_logprobs.is_empty());
    }
}
