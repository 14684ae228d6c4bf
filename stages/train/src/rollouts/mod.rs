//! Rollouts: a policy, an environment and its tools, many episodes at once. One engine for RL, Monte-Carlo labels and evaluation.
//!
//! Why so: all running sequences decode together; a sequence whose turn ends hands it to its episode and waits for its tools while
//! the others go on. Tokens are only appended. Every draw is keyed by (chance, id of the problem, sample, turn, token), so an episode is
//! the same whatever shares its batch or its list of problems. Refuses: logits that are not numbers (the stage stops), and training on
//! an episode that an infrastructure failure ended: it is marked and counted apart.

pub mod driver;
pub mod flow;
pub mod forking;
pub mod job;
pub mod live;
pub mod record;
pub mod rescore;
pub mod schedule;
pub mod steps;
#[cfg(test)]
mod tests;

pub use driver::Driver;
pub use flow::Flow;
pub use forking::Forking;
pub use job::{Job, Limits, Start, ToolWait};
pub use record::Finished;
pub use schedule::Schedule;
pub use steps::StepKind;
