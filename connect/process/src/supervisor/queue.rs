//! Queues the jobs of a supervisor: jobs for any lane, and jobs for one lane.

use super::wire::LaneCapacity;
use std::collections::VecDeque;
use std::io::{PipeWriter, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Number of queued jobs at which [`JobQueue::push_back_to`] wakes an idle lane.
const LAZY_WAKE_JOBS: usize = 256;

/// Queue shared by all lanes.
pub struct JobQueue<J> {
    state: Mutex<JobQueueState<J>>,
    wakers: Vec<PipeWriter>,
}

struct JobQueueState<J> {
    common: VecDeque<J>,
    /// Jobs of each lane.
    lane_jobs: Vec<VecDeque<J>>,
    /// Whether the lane found no job, so that the next job must wake it.
    idle: Vec<bool>,
    /// Process ids of the running workers by lane.
    workers: Vec<Option<u32>>,
    shut: bool,
}

impl<J> JobQueue<J> {
    /// Creates a queue with one waker for each lane.
    pub fn new(wakers: Vec<PipeWriter>) -> Self {
        let lane_jobs = wakers.iter().map(|_| VecDeque::new()).collect();
        let (idle, workers) = (vec![false; wakers.len()], vec![None; wakers.len()]);
        Self {
            state: Mutex::new(JobQueueState { common: VecDeque::new(), lane_jobs, idle, workers, shut: false }),
            wakers,
        }
    }
    fn lock(&self) -> MutexGuard<'_, JobQueueState<J>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub fn workers(&self) -> usize {
        self.wakers.len()
    }
    /// Queues a job for any lane, and wakes all idle lanes.
    pub fn push(&self, job: J) {
        let mut state = self.lock();
        state.common.push_back(job);
        let idle: Vec<bool> = state.idle.iter_mut().map(std::mem::take).collect();
        drop(state);
        idle.iter().enumerate().filter(|(_, idle)| **idle).for_each(|(lane, _)| self.wake(lane));
    }
    /// Queues a job for one lane, and wakes the lane if it is idle.
    pub fn push_to(&self, lane: usize, job: J) {
        self.push_on(lane, job, 1);
    }
    /// Queues a job for one lane, and wakes an idle lane only if [`LAZY_WAKE_JOBS`] jobs are queued.
    pub fn push_back_to(&self, lane: usize, job: J) {
        self.push_on(lane, job, LAZY_WAKE_JOBS);
    }
    /// Queues a job for one lane, and wakes the lane if it is idle and at least `threshold` jobs are queued.
    fn push_on(&self, lane: usize, job: J, threshold: usize) {
        let mut state = self.lock();
        state.lane_jobs[lane].push_back(job);
        let wakes = state.lane_jobs[lane].len() >= threshold && std::mem::take(&mut state.idle[lane]);
        drop(state);
        if wakes {
            self.wake(lane);
        }
    }
    /// Takes the next job of a lane with `open` open jobs, its own jobs first. If it returns `None`, the lane counts as
    /// idle and the next job wakes it.
    pub fn take(&self, lane: usize, open: usize, capacity: LaneCapacity) -> Option<J> {
        let mut state = self.lock();
        let lane_job = if open < capacity.own { state.lane_jobs[lane].pop_front() } else { None };
        let job = lane_job.or_else(|| if open < capacity.common { state.common.pop_front() } else { None });
        state.idle[lane] = job.is_none();
        job
    }
    /// Takes all queued jobs that a lane may process: the common ones and its own.
    pub fn take_all(&self, lane: usize) -> Vec<J> {
        let mut state = self.lock();
        let lane_jobs = std::mem::take(&mut state.lane_jobs[lane]);
        std::mem::take(&mut state.common).into_iter().chain(lane_jobs).collect()
    }
    /// Takes all queued jobs of one lane.
    pub fn take_own(&self, lane: usize) -> Vec<J> {
        Vec::from(std::mem::take(&mut self.lock().lane_jobs[lane]))
    }
    pub fn set_worker(&self, lane: usize, worker: Option<u32>) {
        self.lock().workers[lane] = worker;
    }
    /// Returns the process ids of the running workers.
    pub fn worker_ids(&self) -> Vec<u32> {
        self.lock().workers.iter().copied().flatten().collect()
    }
    pub fn shut_down(&self) {
        self.lock().shut = true;
        (0..self.wakers.len()).for_each(|lane| self.wake(lane));
    }
    pub fn is_shut_down(&self) -> bool {
        self.lock().shut
    }
    /// Wakes a lane. A write to a full pipe fails, but the pipe already wakes the lane.
    fn wake(&self, lane: usize) {
        let _ = (&self.wakers[lane]).write(&[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, PipeReader, Read as _};

    const CAPACITY: LaneCapacity = LaneCapacity { common: 1, own: 2, in_batches: false };

    /// Returns a queue of one lane, and the pipe by which the lane is woken.
    fn queue() -> (JobQueue<u8>, PipeReader) {
        let (reader, waker) = io::pipe().unwrap();
        (JobQueue::new(vec![waker]), reader)
    }

    /// Returns the number of times that a dropped queue woke its lane.
    fn wakes(queue: JobQueue<u8>, mut reader: PipeReader) -> usize {
        drop(queue);
        let mut all = Vec::new();
        reader.read_to_end(&mut all).unwrap()
    }

    #[test]
    fn lane_takes_its_own_jobs_before_common_ones() {
        let (queue, _reader) = queue();
        queue.push(1);
        queue.push_to(0, 2);
        assert_eq!([0, 0, 1].map(|open| queue.take(0, open, CAPACITY)), [Some(2), Some(1), None]);
        queue.push(3);
        assert_eq!(queue.take(0, 1, CAPACITY), None);
        queue.push_to(0, 4);
        assert_eq!((queue.take(0, 2, CAPACITY), queue.take(0, 1, CAPACITY)), (None, Some(4)));
        assert_eq!(queue.take_all(0), [3]);
    }

    #[test]
    fn only_idle_lane_is_woken() {
        let (queue, reader) = queue();
        queue.push_to(0, 1);
        assert_eq!(wakes(queue, reader), 0);
        let (queue, reader) = self::queue();
        assert_eq!(queue.take(0, 0, CAPACITY), None);
        (0..10).for_each(|job| queue.push_to(0, job));
        assert_eq!(wakes(queue, reader), 1);
        let (queue, reader) = self::queue();
        assert_eq!(queue.take(0, 0, CAPACITY), None);
        (1..LAZY_WAKE_JOBS).for_each(|_| queue.push_back_to(0, 0));
        assert_eq!(wakes(queue, reader), 0);
        let (queue, reader) = self::queue();
        assert_eq!(queue.take(0, 0, CAPACITY), None);
        (0..2 * LAZY_WAKE_JOBS).for_each(|_| queue.push_back_to(0, 0));
        assert_eq!(wakes(queue, reader), 1);
    }
}
