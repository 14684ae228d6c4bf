//! Where every episode of the loop stands: queued, decoding, waiting for tools, held, paused or done.
//!
//! Why so: the loop of [`super::driver`] only moves episodes from one place to the next, and asynchronous, forking and repeated runs differ in
//! what may move. Refuses: deciding anything about an episode's content, which is [`Live`]'s.

use super::forking::Forking;
use super::job::Job;
use super::live::{Live, Waiting};
use super::record::Finished;
use super::schedule::Schedule;
use std::collections::{BTreeMap, VecDeque};
use trainyard_lm::generate::SequenceId;

/// Where every episode stands.
#[derive(Default)]
pub struct Flow<'a> {
    pub(super) queue: VecDeque<(usize, Job)>,
    pub(super) decoding: BTreeMap<SequenceId, Box<Live<'a>>>,
    /// Their tools run.
    pub(super) waiting: Waiting<'a>,
    /// Ready, but held until the batch is ([`ToolWait::Batch`]).
    pub(super) held: Waiting<'a>,
    pub(super) forking: Option<Forking<'a>>,
    /// Of a run that is repeated: how far each sequence may go under the present weights.
    pub(super) schedule: Option<Schedule>,
    /// As far as the schedule allows; true = in the middle of a turn.
    pub(super) paused: Vec<(Box<Live<'a>>, bool)>,
    pub(super) submitted: usize,
    pub(super) done: Vec<(usize, Finished)>,
}

impl<'a> Flow<'a> {
    pub fn new(forking: Option<Forking<'a>>) -> Self {
        Self { forking, ..Self::default() }
    }
    /// For a run that is repeated.
    pub fn scheduled(schedule: Schedule) -> Self {
        Self { schedule: Some(schedule), ..Self::default() }
    }
    /// The generator has new weights.
    pub fn set_version(&mut self, version: u32) {
        if let Some(schedule) = &mut self.schedule {
            schedule.version = version;
        }
    }
    /// Tokens that a sequence of this length may sample under the present weights.
    pub(super) fn allowed(&self, job: &Job, length: usize) -> usize {
        self.schedule.as_ref().map_or(usize::MAX, |s| s.allowed(job.group, job.sample, length))
    }
    /// Whether an episode can move before the weights change.
    pub fn can_move(&self) -> bool {
        !self.queue.is_empty() || self.decoding.len() + self.waiting.len() + self.held.len() > 0
    }
    pub fn submit(&mut self, job: Job) {
        if let Some(forking) = &mut self.forking {
            forking.started(&job);
        }
        self.queue.push_back((self.submitted, job));
        self.submitted += 1;
    }
    /// Episodes that have not ended.
    pub fn unfinished(&self) -> bool {
        !self.queue.is_empty() || self.in_flight() > 0
    }
    pub fn in_flight(&self) -> usize {
        let parked = self.forking.as_ref().map_or(0, Forking::parked);
        self.decoding.len() + self.waiting.len() + self.held.len() + self.paused.len() + parked
    }
    /// All that is in flight waits for members of its groups that have not started.
    pub(super) fn stuck(&self) -> bool {
        let parked = self.forking.as_ref().map_or(0, Forking::parked);
        parked > 0 && parked == self.in_flight()
    }
    /// What has ended since the last call, in the order of submission.
    pub fn take_done(&mut self) -> Vec<Finished> {
        let mut done = std::mem::take(&mut self.done);
        done.sort_by_key(|(order, _)| *order);
        done.into_iter().map(|(_, f)| f).collect()
    }
}
