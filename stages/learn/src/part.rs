//! Defines the traits that RL parts implement, and the types that parts exchange with the training loop
//! (`docs/design/0005`).
//!
//! One step calls the parts in this order: the curriculum for problems, the strategy for sequences (`start`, `at_turn`,
//! `select`), the rewards, the filters one after another (and all of these again until the batch is full), the
//! advantage, its modulations, the replay, the correction, and the loss terms, whose sum drives the updates. A
//! checkpoint stores each part's state through [`RlPart::save`]. Rewards read chat text and are therefore defined with
//! the environments.

mod pool;
mod replay;

pub use pool::{PoolDemonstration, PoolProblem, ProblemPool};
pub use replay::{Replay, ReplayedRollout};

use crate::batch::{Batch, Group, LossBatch, Rollout, TokenGrid};
use crate::pass_rates::PassRates;
use serde_json::Value;
use trainyard_core::{Chance, Error, Result};

/// Requirements of a part. `check` compares the union over all parts with the capabilities of the environment, the
/// strategy and the stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// Entropies of the current policy per token.
    pub entropies: bool,
    /// Entropies of the distributions that rollouts were sampled from, per token.
    pub rollout_entropies: bool,
    /// Logprobs under the reference (initial) policy.
    pub reference: bool,
    /// Value head.
    pub values: bool,
    /// Logprobs of forced text (a gold answer) at every turn.
    pub forced_scores: bool,
    /// Forking of sequence and tool state.
    pub fork: bool,
    /// More than one turn.
    pub multi_turn: bool,
    /// More than one rollout per problem.
    pub groups: bool,
    /// All groups of a step at once, to compare them with each other.
    pub all_groups: bool,
    /// Demonstrations of the problems, as tokens ([`PoolProblem::demonstrations`]).
    pub demonstrations: bool,
    /// Episodes that do not begin with the plain prompt: they continue a prefix, or have a text in the prompt that is
    /// left out of the update.
    pub altered_start: bool,
    /// Score of a process reward model for every step.
    pub step_scores: bool,
}

impl Needs {
    /// No needs beyond rollouts and their rewards.
    pub const NONE: Self = Self {
        entropies: false,
        rollout_entropies: false,
        reference: false,
        values: false,
        forced_scores: false,
        fork: false,
        multi_turn: false,
        groups: false,
        all_groups: false,
        demonstrations: false,
        altered_start: false,
        step_scores: false,
    };
    /// Returns each need with its name, in a fixed order.
    pub fn named(self) -> [(&'static str, bool); 12] {
        [
            ("entropies", self.entropies),
            ("rollout_entropies", self.rollout_entropies),
            ("reference", self.reference),
            ("values", self.values),
            ("forced_scores", self.forced_scores),
            ("fork", self.fork),
            ("multi_turn", self.multi_turn),
            ("groups", self.groups),
            ("all_groups", self.all_groups),
            ("demonstrations", self.demonstrations),
            ("altered_start", self.altered_start),
            ("step_scores", self.step_scores),
        ]
    }
    /// Returns the names of the needs that are set.
    pub fn names(self) -> Vec<&'static str> {
        self.missing(Self::NONE)
    }
    /// Returns the needs that either of the two has.
    #[must_use]
    pub fn union(self, o: Self) -> Self {
        Self {
            entropies: self.entropies | o.entropies,
            rollout_entropies: self.rollout_entropies | o.rollout_entropies,
            reference: self.reference | o.reference,
            values: self.values | o.values,
            forced_scores: self.forced_scores | o.forced_scores,
            fork: self.fork | o.fork,
            multi_turn: self.multi_turn | o.multi_turn,
            groups: self.groups | o.groups,
            all_groups: self.all_groups | o.all_groups,
            demonstrations: self.demonstrations | o.demonstrations,
            altered_start: self.altered_start | o.altered_start,
            step_scores: self.step_scores | o.step_scores,
        }
    }
    /// Returns the names of the needs that `offered` lacks.
    pub fn missing(self, offered: Self) -> Vec<&'static str> {
        self.named()
            .iter()
            .zip(offered.named())
            .filter(|((_, need), (_, have))| *need && !have)
            .map(|((name, _), _)| *name)
            .collect()
    }
}

/// Interface of all parts: needs, and state that checkpoints keep.
pub trait RlPart: Send + Sync {
    /// Returns the needs of the part with these options.
    fn needs(&self) -> Needs {
        Needs::NONE
    }
    /// Returns the state that later steps depend on; null for parts without state.
    fn save(&self) -> Value {
        Value::Null
    }
    /// Restores the state returned by [`RlPart::save`]. Errors: data, if the value has another shape.
    fn load(&mut self, state: Value) -> Result<()> {
        if state.is_null() {
            Ok(())
        } else {
            Err(Error::data("this part keeps no state, but the checkpoint holds some for it"))
        }
    }
}

/// Progress of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Number of the current step, from 0.
    pub step: u64,
    /// Number of steps of the whole run.
    pub steps: u64,
}

impl Progress {
    /// Returns the completed share of the run, in [0, 1): 0 at the first step.
    pub fn share(self) -> f64 {
        self.step as f64 / self.steps.max(1) as f64
    }
}

/// Problems of one step, with their turn limit and scaffold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Draw {
    /// Indexes in the pool; each becomes one group.
    pub problems: Vec<usize>,
    /// Turn limit of this step; `None` = the environment's.
    pub max_turns: Option<u32>,
    /// Text that is put before the problem in this step only (a rubric, a hint); empty without such a text.
    pub scaffold: String,
}

/// Selection of the next problems.
pub trait Curriculum: RlPart {
    /// Chooses `count` problems of the pool for this step, with repeats only if the pool is smaller. Called again in a
    /// step that must resample.
    fn next(&mut self, step: u64, count: usize, pool: &ProblemPool, rates: &PassRates, chance: &Chance) -> Draw;
    /// Returns metrics of the current state, such as the unlocked level: (name, value).
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// Sequence to start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spawn {
    /// Place in [`Draw::problems`].
    pub group: usize,
    /// Number of the sequence within its group, from 0.
    pub sample: u32,
    /// Beginning of a demonstration. The environment replays its whole turns; all its tokens stay in the mask and
    /// precede [`crate::Rollout::given`].
    pub prefix: Option<EpisodePrefix>,
    /// Text that is put before the problem for this sequence only; empty without such a text. The update uses the
    /// prompt without it.
    pub scaffold: String,
}

/// Beginning of an episode, as the tokens of the agent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EpisodePrefix {
    /// Whole agent turns, stop tokens included.
    pub turns: Vec<Vec<u32>>,
    /// First tokens of the next turn, which the policy continues; may be empty.
    pub partial: Vec<u32>,
    /// Id of the demonstration's row, which the rollout names in `parents`; empty without such a row.
    pub demonstration: String,
}

/// Sequence that has just sampled a turn, which its environment has not seen yet.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LiveSequence {
    /// Place of the problem in [`Draw::problems`].
    pub group: usize,
    /// Number of the sequence within its group, from 0, roots and forks alike.
    pub sample: u32,
    /// Number of the turn, from 0. Turns after 0 follow a tool result.
    pub turn: u32,
    /// Index of the turn's first token in the sequence, prompt included.
    pub first: usize,
    /// `[turn][token]`: entropy in nats of every token sampled so far; the last list is this turn's.
    pub entropies: Vec<Vec<f64>>,
    /// Number of tool calls before this turn.
    pub tool_calls: u32,
    /// Number of forks along the ancestry.
    pub forks: u32,
    /// Number of turns since the last fork along the ancestry; `None` without a fork.
    pub since_fork: Option<u32>,
}

/// Number of sequences that a group has and may have; the strategy's view of the rest of the group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupBudget {
    /// Number of started sequences, whether they have ended or not.
    pub started: u32,
    /// Limit of sequences of the group.
    pub budget: u32,
}

/// Action on a live sequence at the end of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StrategyAction {
    /// Send the turn to the environment and continue the episode.
    Continue,
    /// Continue copies from a token of the last turn, in addition to the original, each with separate random draws and
    /// with the tool state from before the turn. The group's budget limits their number.
    Fork {
        /// Index in the sequence of the first token that the copies sample: from the first token of the last turn to
        /// the exclusive end of the turn.
        at: usize,
        /// Number of copies in addition to the original.
        copies: u32,
    },
    /// End the episode.
    Stop,
}

/// Selection of the sequences to sample for a problem, and of those to keep.
///
/// A strategy that needs forks is called after every sampled turn: once all live sequences of the group have sampled
/// their turns, in the order of sample numbers. Its decisions therefore do not depend on the duration of tool calls.
pub trait Strategy: RlPart {
    /// Returns the sequences that start from the prompt; `size` is the group size.
    fn start(&mut self, draw: &Draw, pool: &ProblemPool, size: u32, progress: Progress, chance: &Chance) -> Vec<Spawn>;
    /// Returns the action on a sequence that has just sampled a turn; called only if the strategy needs forks.
    fn at_turn(&mut self, _live: &LiveSequence, _group: &GroupBudget, _chance: &Chance) -> StrategyAction {
        StrategyAction::Continue
    }
    /// Returns the number of additional sequences to start from the prompt, once all sequences of the group have ended
    /// and the last round made no fork.
    fn refill(&mut self, _group: usize, view: &GroupBudget) -> u32 {
        view.budget.saturating_sub(view.started)
    }
    /// Returns one flag per rollout of a group: whether it is kept.
    fn select(&mut self, done: &[Rollout], _size: u32, _chance: &Chance) -> Vec<bool> {
        vec![true; done.len()]
    }
    /// Returns the maximum number of sequences per group that `start`, `at_turn` and `refill` may create together.
    fn max_sequences(&self, size: u32) -> u32 {
        size
    }
    /// Returns metrics of the last step: (name, value).
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// A filter's judgment of one rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RolloutVerdict {
    /// Use the rollout in the update unchanged.
    Keep,
    /// Remove the rollout from the batch; the text is the reason.
    Drop(String),
    /// Keep the rollout in the baseline, but remove these tokens (half-open ranges) from the loss; the text is the
    /// reason.
    Mask(Vec<(usize, usize)>, String),
}

/// Selection of the rollouts of an update.
pub trait Filter: RlPart {
    /// Returns one verdict per rollout, `[group][rollout]`.
    fn judge(&mut self, groups: &[Group]) -> Vec<Vec<RolloutVerdict>>;
    /// Returns whether the loop draws a replacement for a group that this filter emptied.
    fn resamples(&self) -> bool {
        true
    }
}

/// Conversion of rewards to an advantage per token.
pub trait Advantage: RlPart {
    /// Returns advantages, `[rollout][token]`, 0 where the mask is false.
    fn assign(&mut self, batch: &Batch) -> TokenGrid;
    /// Returns targets for a value head in the same shape, or `None` for forms without a critic. Called after `assign`,
    /// with its result.
    fn returns(&self, _batch: &Batch, _advantages: &TokenGrid) -> Option<TokenGrid> {
        None
    }
    /// Returns metrics of the last call: (name, value).
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// Change of advantages after they were assigned.
pub trait Modulation: RlPart {
    /// Changes `advantages` (`[rollout][token]`) in place; they stay 0 where the mask is false.
    fn apply(&mut self, batch: &Batch, advantages: &mut TokenGrid);
    /// Returns metrics of the last call: (name, value).
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// Extent to which a loss term's tokens depend on each other, which decides what separate micro-batches may compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TermScope {
    /// Dependence within a sequence only; sums over the batch are already in the aggregation weights.
    Sequence,
    /// Dependence across the whole minibatch: the logprobs of all sequences are computed before the term, and the
    /// gradients after it. If the term also needs groups, its minibatches hold whole groups.
    Minibatch,
}

/// Value and gradient of one loss term.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TermValue {
    /// Loss, already weighted by the aggregation; the terms of one minibatch are added.
    pub loss: f64,
    /// Derivative d loss / d current logprob, `[sequence][token]`.
    pub d_logprobs: TokenGrid,
    /// Derivative d loss / d entropy in the same shape; `None` if the term does not read entropies.
    pub d_entropies: Option<TokenGrid>,
    /// Derivative d loss / d value in the same shape; `None` if the term does not read values.
    pub d_values: Option<TokenGrid>,
    /// Sums over micro-batches; the loop divides each by the number of tokens in the loss.
    pub sums: Vec<(&'static str, f64)>,
}

/// Pure function of current logprobs, entropies and values that returns its own gradient.
pub trait LossTerm: RlPart {
    /// Updates schedules and running means, once per step with the fresh batch, before its updates.
    fn begin(&mut self, _batch: &Batch, _progress: Progress) {}
    /// Computes loss and gradient on one minibatch, or on a micro-batch of it if [`TermScope::Sequence`] allows that.
    fn value(&self, batch: &LossBatch) -> TermValue;
    /// Returns how far the tokens of this term depend on each other.
    fn scope(&self) -> TermScope {
        TermScope::Sequence
    }
}
