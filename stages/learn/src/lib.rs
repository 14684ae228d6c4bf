//! Implements the mathematics of agentic reinforcement learning on slices of `f64`: advantages, loss terms, filters,
//! curricula, rollout strategies, replay, preference losses and evaluation statistics.
//!
//! A published method is a composition of small named parts ([`compose`]); the training loop in `trainyard-train` knows
//! only the traits of [`part`]. No tensors are needed, because loss terms return their own gradients. Every formula can
//! therefore be checked against stored vectors ([`parity`]) and finite differences.

pub mod advantages;
pub mod aggregate;
pub mod batch;
pub mod compose;
pub mod compositions;
pub mod corrections;
pub mod curricula;
pub mod filters;
pub mod losses;
pub mod mechanism;
pub mod merge;
pub mod modulations;
pub mod parity;
pub mod part;
pub mod pass_rates;
pub mod preference_losses;
pub mod registry;
pub mod replay;
pub mod statistics;
pub mod strategies;

pub use aggregate::Aggregate;
pub use batch::{Batch, Group, LossBatch, ProgramCalls, Rollout, TokenGrid, TurnSummary};
pub use part::{
    Advantage, Curriculum, Draw, EpisodePrefix, Filter, GroupBudget, LiveSequence, LossTerm, Modulation, Needs,
    PoolDemonstration, PoolProblem, ProblemPool, Progress, Replay, ReplayedRollout, RlPart, RolloutVerdict, Spawn,
    Strategy, StrategyAction, TermScope, TermValue,
};
pub use pass_rates::PassRates;
pub use preference_losses::PreferenceLoss;
pub use registry::LearnParts;
