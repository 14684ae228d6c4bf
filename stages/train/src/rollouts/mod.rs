//! Rollouts: a policy, an environment and its tools, many episodes at once. One engine for RL, Monte-Carlo labels and
//! evaluation.
//!
//! [`driver`] moves episodes between the lists of [`flow`]; [`live`] is one episode, and [`record`] converts it to a
//! row at its end. All running sequences decode together, and an episode that waits for a tool does not delay any
//! other. Every draw is keyed by (chance, id of the problem, sample, turn, token), so an episode does not depend on its
//! batch.

mod asking;
mod attach;
#[cfg(test)]
mod context_tests;
pub mod draw;
pub mod driver;
pub mod flow;
pub mod forking;
#[cfg(test)]
mod harness_tests;
pub mod job;
mod kept;
#[cfg(test)]
mod kept_tests;
pub mod live;
pub mod record;
pub mod rescore;
mod segment;
pub mod steps;
#[cfg(test)]
mod tests;

pub use draw::draw_key;
pub use driver::Driver;
pub use flow::Flow;
pub use forking::Forking;
pub use job::{Job, Limits, Start, ToolWait};
pub use steps::StepKind;
