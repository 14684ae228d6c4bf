//! The seven traits of RL parts, and what all parts have in common (`docs/design/0005`).
//!
//! Order of a step: curriculum → strategy (start, at_turn, select) → rewards → filters in order, drawing again
//! until the batch is full → advantage → modulations → replay → correction → loss terms, summed → updates.
//! State of a part goes into every checkpoint through [`Part::save`], so a killed run ends in the same bytes.
//! Rewards read chat text and live with the environments.

use crate::batch::{Batch, Grid, Group, Rollout, TokenBatch};
use crate::pass_rates::PassRates;
use serde_json::Value;
use std::collections::BTreeMap;
use trainyard_core::{Chance, Error, Result};

/// What a part cannot do without. `check` compares the union with the environment, the strategy and the stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// Entropies of the current policy per token.
    pub entropies: bool,
    /// Logprobs under the reference (initial) policy.
    pub reference: bool,
    /// A value head.
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
    /// Episodes that begin otherwise than at the problem's prompt: behind a prefix, or under a text that only the
    /// sampling sees.
    pub altered_start: bool,
    /// Scores of a process reward model per step.
    pub step_scores: bool,
}

impl Needs {
    /// Nothing beyond rollouts and their rewards.
    pub const NONE: Self = Self {
        entropies: false,
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
    /// Each need by name, in a fixed order.
    pub fn named(self) -> [(&'static str, bool); 11] {
        [
            ("entropies", self.entropies),
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
    /// Names of what is needed.
    pub fn names(self) -> Vec<&'static str> {
        self.missing(Self::NONE)
    }
    /// What either of the two needs.
    #[must_use]
    pub fn union(self, o: Self) -> Self {
        Self {
            entropies: self.entropies | o.entropies,
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
    /// Names of the needs that `offered` lacks.
    pub fn missing(self, offered: Self) -> Vec<&'static str> {
        self.named()
            .iter()
            .zip(offered.named())
            .filter(|((_, need), (_, have))| *need && !have)
            .map(|((name, _), _)| *name)
            .collect()
    }
}

/// What every part is.
pub trait Part: Send + Sync {
    /// What the part, with these options, cannot do without.
    fn needs(&self) -> Needs {
        Needs::NONE
    }
    /// Everything that the rest of the run depends on; null for parts without state.
    fn save(&self) -> Value {
        Value::Null
    }
    /// Takes back what [`Part::save`] gave. Errors: data, when the value is of another shape.
    fn load(&mut self, state: Value) -> Result<()> {
        if state.is_null() {
            Ok(())
        } else {
            Err(Error::data("this part keeps no state, but the checkpoint holds some for it"))
        }
    }
}

/// How far the run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// From 0.
    pub step: u64,
    /// Steps of the whole run.
    pub steps: u64,
}

impl Progress {
    /// Share of the run that is done, in [0, 1): 0 at the first step.
    pub fn share(self) -> f64 {
        self.step as f64 / self.steps.max(1) as f64
    }
}

/// One problem of the pool, as far as curricula and strategies may know it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PoolProblem {
    /// Id of its row in the `problems` artifact.
    pub id: String,
    /// Difficulty level; curricula count pass rates by it.
    pub level: u32,
    /// Lines of a worked solution, for strategies that reveal a part of it; empty if the problem has none.
    pub hints: Vec<String>,
    /// Demonstrations by their own tokens, turn by turn, stop tokens included; only where a part needs demonstrations.
    pub demonstrations: Vec<Vec<Vec<u32>>>,
}

/// All problems that RL may draw from, in artifact order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pool {
    /// Parts refer to a problem by its index here.
    pub problems: Vec<PoolProblem>,
}

impl Pool {
    /// Level → places in the pool, both ascending.
    pub fn by_level(&self) -> BTreeMap<u32, Vec<usize>> {
        let mut levels: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (i, p) in self.problems.iter().enumerate() {
            levels.entry(p.level).or_default().push(i);
        }
        levels
    }
}

/// The problems of one step, with limits and prompt scaffold that apply to them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Draw {
    /// Places in the pool; one group each.
    pub problems: Vec<usize>,
    /// Turn limit of this step; none = the environment's.
    pub max_turns: Option<u32>,
    /// Text put before the problem in this step only (a rubric, a hint); empty = none.
    pub scaffold: String,
}

/// Which problems come next.
pub trait Curriculum: Part {
    /// `count` problems of the pool for this step (repeats only if the pool is smaller). Called again within a step for
    /// resampling.
    fn next(&mut self, step: u64, count: usize, pool: &Pool, rates: &PassRates, chance: &Chance) -> Draw;
    /// What to show: (metric name, value) of its present state, e.g. the unlocked level.
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// A sequence to start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spawn {
    /// Place in [`Draw::problems`].
    pub group: usize,
    /// Number of the sequence within its group, from 0.
    pub sample: u32,
    /// The beginning of a demonstration: whole agent turns, then the first tokens of the next one. The environment
    /// answers the turns as it did; the tokens stay in the mask, before [`crate::Rollout::given`].
    pub prefix: Option<Prefix>,
    /// Text put before the problem for this sequence only; empty = none. The update sees the prompt without it.
    pub scaffold: String,
}

/// The beginning of an episode, by the agent's own tokens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prefix {
    /// Stop tokens included.
    pub turns: Vec<Vec<u32>>,
    /// First tokens of the turn after those, which the policy continues; may be empty.
    pub partial: Vec<u32>,
}

/// A sequence that has just sampled a turn, which its environment has not seen yet.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Live {
    /// Place of its problem in [`Draw::problems`].
    pub group: usize,
    /// Number of the sequence within its group; forks are numbered after the roots.
    pub sample: u32,
    /// Place of the turn, from 0. Turns after 0 follow a tool result.
    pub turn: u32,
    /// First token of the turn in the sequence, prompt included.
    pub first: usize,
    /// Entropy of every token sampled so far, turn by turn; the last list is that of this turn.
    pub entropies: Vec<Vec<f64>>,
    /// Complete tool calls before this turn.
    pub tool_calls: u32,
    /// Forks along its ancestry.
    pub forks: u32,
    /// Turns since the last fork along its ancestry; none if there was none.
    pub since_fork: Option<u32>,
}

/// What a strategy sees of the rest of the group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupView {
    /// Sequences alive or done.
    pub started: u32,
    /// Most sequences the group may hold.
    pub budget: u32,
}

/// What happens to a live sequence at the end of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The environment answers the turn and the episode goes on.
    Continue,
    /// This many copies go on from token `at` of the sequence (from the first token of its last turn to behind its
    /// last), beside the original, each with chance of its own. Tool state is that before the turn. Beyond the group's
    /// budget none are made.
    Fork {
        /// Index of the first token, prompt included, that the copies do not share.
        at: usize,
        /// Copies beside the original.
        copies: u32,
    },
    /// The episode ends here.
    Stop,
}

/// Which sequences are sampled for a problem, and which are kept.
///
/// A strategy that needs forks is asked at the end of every sampled turn, once all living sequences of the group have
/// sampled theirs, in order of their sample numbers: so its answers do not depend on how long tools take. Others are
/// never asked.
pub trait Strategy: Part {
    /// The sequences that start from the root; `size` is the group size.
    fn start(&mut self, draw: &Draw, pool: &Pool, size: u32, progress: Progress, chance: &Chance) -> Vec<Spawn>;
    /// What happens to a sequence that has just sampled a turn; asked only if the strategy needs forks.
    fn at_turn(&mut self, _live: &Live, _group: &GroupView, _chance: &Chance) -> Action {
        Action::Continue
    }
    /// More sequences from the root once all of the group have ended and no fork was made in this round: how many.
    fn refill(&mut self, _group: usize, view: &GroupView) -> u32 {
        view.budget.saturating_sub(view.started)
    }
    /// Which of the sampled rollouts of a group are kept: one flag each.
    fn select(&mut self, done: &[Rollout], _size: u32, _chance: &Chance) -> Vec<bool> {
        vec![true; done.len()]
    }
    /// Most sequences per group that `start`, `at_turn` and `refill` may make.
    fn most(&self, size: u32) -> u32 {
        size
    }
    /// What to show of the last step: (metric name, value).
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// A filter's judgment of one rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Enters the update as it is.
    Keep,
    /// Leaves the batch.
    Drop(String),
    /// Stays for the baseline, but these tokens (half-open ranges) leave the loss.
    Mask(Vec<(usize, usize)>, String),
}

/// Which rollouts enter the update.
pub trait Filter: Part {
    /// One verdict per rollout, `[group][rollout]`.
    fn judge(&mut self, groups: &[Group]) -> Vec<Vec<Verdict>>;
    /// Whether a group that this filter emptied is drawn again.
    fn resamples(&self) -> bool {
        true
    }
}

/// From rewards to a number per token.
pub trait Advantage: Part {
    /// `[rollout][token]`, 0 where the mask is false.
    fn assign(&mut self, batch: &Batch) -> Grid;
    /// Targets of a value head, same shape; none for critic-free forms. Called after `assign` with its result.
    fn returns(&self, _batch: &Batch, _advantages: &Grid) -> Option<Grid> {
        None
    }
    /// What to show of the last call: (metric name, value).
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// Changes advantages after they were assigned.
pub trait Modulation: Part {
    /// Changes `advantages` (`[rollout][token]`) in place; they stay 0 where the mask is false.
    fn apply(&mut self, batch: &Batch, advantages: &mut Grid);
    /// What to show of the last call: (metric name, value).
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}

/// How far a loss term's tokens depend on each other: decides what may be computed in separate micro-batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Each sequence by itself (its aggregation weights already hold the batch's sums).
    Sequence,
    /// The whole minibatch: logprobs of all sequences are computed first, then the term, then the gradients. A term
    /// that also needs groups gets whole groups in its minibatches.
    Minibatch,
}

/// Value and gradient of one loss term.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Term {
    /// Already weighted by the aggregation; terms of one minibatch add up.
    pub loss: f64,
    /// d loss / d current logprob, `[sequence][token]`.
    pub d_logprobs: Grid,
    /// d loss / d entropy in the same shape; none if the term does not read entropies.
    pub d_entropies: Option<Grid>,
    /// d loss / d value in the same shape; none if the term does not read values.
    pub d_values: Option<Grid>,
    /// Sums that add over micro-batches; the loop divides each by the number of tokens in the loss.
    pub sums: Vec<(&'static str, f64)>,
}

/// A pure function of current logprobs, entropies and values that returns its own gradient.
pub trait LossTerm: Part {
    /// Called once per step with the fresh batch, before its updates: schedules and running means.
    fn begin(&mut self, _batch: &Batch, _progress: Progress) {}
    /// Loss and gradient on the tokens of one minibatch, or of a part of one where [`Scope::Sequence`] allows it.
    fn value(&self, batch: &TokenBatch) -> Term;
    /// How far the tokens of this term depend on each other.
    fn scope(&self) -> Scope {
        Scope::Sequence
    }
}

/// An old rollout that enters the update again.
#[derive(Debug, Clone, PartialEq)]
pub struct Replayed {
    /// As it was offered.
    pub rollout: Rollout,
    /// Per token; 0 where the mask is false.
    pub advantages: Vec<f64>,
    /// Multiplies its aggregation weights.
    pub weight: f64,
}

/// Keeps rollouts of earlier steps.
pub trait Replay: Part {
    /// Shows the rollouts of a step, before its updates, with the advantages that they will have.
    fn offer(&mut self, batch: &Batch, advantages: &Grid);
    /// Rollouts that join the update of this step; called once per step, after `offer`.
    fn draw(&mut self, step: u64, chance: &Chance) -> Vec<Replayed>;
    /// What to show of the last step: (metric name, value).
    fn metrics(&self) -> Vec<(&'static str, f64)> {
        Vec::new()
    }
}
