//! Holds the state of every episode of the loop: queued, decoding, waiting for tools, ready, or done.

use super::fork_scheduler::ForkScheduler;
use super::job::EpisodeJob;
use super::live_episode::{LiveEpisode, WaitingEpisodes};
use std::collections::{BTreeMap, VecDeque};
use trainyard_learn::Rollout;
use trainyard_lm::generate::SequenceId;

/// Episodes of one call, grouped by their state.
#[derive(Default)]
pub struct EpisodeQueues<'a> {
    pub(super) queue: VecDeque<(usize, EpisodeJob)>,
    pub(super) decoding: BTreeMap<SequenceId, Box<LiveEpisode<'a>>>,
    /// Episodes with running tools.
    pub(super) waiting: WaitingEpisodes<'a>,
    /// Ready episodes, held until the whole batch is ready ([`super::ToolWait::Batch`]).
    pub(super) ready: WaitingEpisodes<'a>,
    pub(super) forking: Option<ForkScheduler<'a>>,
    pub(super) submitted: usize,
    pub(super) done: Vec<(usize, Rollout)>,
}

impl<'a> EpisodeQueues<'a> {
    /// Creates queues without episodes. With `forking`, a strategy may fork episodes at the end of every turn.
    pub fn new(forking: Option<ForkScheduler<'a>>) -> Self {
        Self { forking, ..Self::default() }
    }
    /// Adds an episode to the end of the queue.
    pub fn submit(&mut self, job: EpisodeJob) {
        if let Some(forking) = &mut self.forking {
            forking.started(&job);
        }
        self.queue.push_back((self.submitted, job));
        self.submitted += 1;
    }
    /// Returns whether any episode has not ended.
    pub fn unfinished(&self) -> bool {
        !self.queue.is_empty() || self.in_flight() > 0
    }
    /// Returns whether any episode can continue without a token being sampled.
    pub fn unsettled(&self) -> bool {
        !self.queue.is_empty() || !self.waiting.is_empty() || !self.ready.is_empty()
    }
    /// Counts episodes that have started and not ended.
    pub fn in_flight(&self) -> usize {
        let parked = self.forking.as_ref().map_or(0, ForkScheduler::parked);
        self.decoding.len() + self.waiting.len() + self.ready.len() + parked
    }
    /// Returns whether all started episodes wait for members of their groups that have not started.
    pub(super) fn is_stuck(&self) -> bool {
        let parked = self.forking.as_ref().map_or(0, ForkScheduler::parked);
        parked > 0 && parked == self.in_flight()
    }
    /// Takes the rollouts that ended since the last call, in the order of submission.
    pub fn take_done(&mut self) -> Vec<Rollout> {
        let mut done = std::mem::take(&mut self.done);
        done.sort_by_key(|(order, _)| *order);
        done.into_iter().map(|(_, f)| f).collect()
    }
}
