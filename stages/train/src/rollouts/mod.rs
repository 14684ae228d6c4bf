//! Runs rollouts: many episodes of a policy in an environment with tools at once. RL, Monte-Carlo labels and evaluation
//! use this engine.
//!
//! [`driver`] moves episodes between the lists of [`episode_queues`]; [`live_episode`] is one episode, and [`record`]
//! converts it to a row at its end. All running sequences decode together, and an episode that waits for a tool does
//! not delay any other. The key of every draw is (chance, id of the problem, sample, turn, token), so an episode does
//! not depend on its batch.

#[cfg(test)]
mod context_tests;
pub mod draw;
pub mod driver;
pub mod episode_queues;
pub mod fork_scheduler;
#[cfg(test)]
mod harness_tests;
pub mod job;
pub mod live_episode;
mod matching;
mod program_requests;
mod program_segments;
#[cfg(test)]
mod program_tests;
pub mod record;
pub mod rescore;
mod segment;
pub mod steps;
#[cfg(test)]
mod tests;
mod turn_forms;

pub use draw::draw_key;
pub use driver::RolloutDriver;
pub use episode_queues::EpisodeQueues;
pub use fork_scheduler::ForkScheduler;
pub use job::{EpisodeJob, EpisodeLimits, EpisodeStart, ToolWait};
pub use steps::StepKind;
