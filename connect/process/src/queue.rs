//! The queue of the processes of a program: requests for any of them, and requests for one.

use crate::fault::Fault;
use crate::ticket::Responder;
use crate::wire::Request;
use std::collections::VecDeque;
use std::io::{PipeWriter, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use trainyard_core::Error;

/// A request with its claim.
pub struct Job {
    /// Request; `None` requests the features that the program reported when it was ready.
    pub request: Option<Request>,
    pub responder: Responder,
    /// Process with the request's state, if it has any.
    pub life: Option<u64>,
    /// Whether a process died while the request was open: it is then sent alone.
    pub suspect: bool,
    /// Number of processes that died during the request while it was alone.
    pub deaths: u32,
}

impl Job {
    pub fn new(request: Option<Request>, responder: Responder, life: Option<u64>) -> Self {
        Self { request, responder, life, suspect: false, deaths: 0 }
    }
    pub fn fail(self, fault: Fault) {
        self.responder.give(Err(fault));
    }
}

/// Queue shared by all lanes.
pub struct Queue {
    state: Mutex<State>,
    wakers: Vec<PipeWriter>,
}

struct State {
    common: VecDeque<Job>,
    own: Vec<VecDeque<Job>>,
    shut: bool,
}

impl Queue {
    /// Creates a queue with one waker for each lane.
    pub fn new(wakers: Vec<PipeWriter>) -> Self {
        let own = wakers.iter().map(|_| VecDeque::new()).collect();
        Self { state: Mutex::new(State { common: VecDeque::new(), own, shut: false }), wakers }
    }
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub fn lanes(&self) -> usize {
        self.wakers.len()
    }
    /// Queues a job for any lane.
    pub fn put(&self, job: Job) {
        self.lock().common.push_back(job);
        (0..self.wakers.len()).for_each(|lane| self.wake(lane));
    }
    /// Queues a job for one lane.
    pub fn put_on(&self, lane: usize, job: Job) {
        self.lock().own[lane].push_back(job);
        self.wake(lane);
    }
    /// Takes the next job for a lane with this many open ones.
    pub fn take(&self, lane: usize, open: usize) -> Option<Job> {
        /// One to process and one to begin immediately after it; more would only wait while other lanes are idle.
        const COMMON: usize = 2;
        /// No other lane can process these.
        const OWN: usize = 64;
        let mut state = self.lock();
        let own = if open < OWN { state.own[lane].pop_front() } else { None };
        own.or_else(|| if open < COMMON { state.common.pop_front() } else { None })
    }
    /// Fails all waiting jobs, because the program does not start.
    pub fn fail_all(&self, lane: usize, error: &Error) {
        let mut state = self.lock();
        let own = std::mem::take(&mut state.own[lane]);
        let waiting = std::mem::take(&mut state.common).into_iter().chain(own).collect::<Vec<_>>();
        drop(state);
        waiting.into_iter().for_each(|job| job.fail(Fault::Outage(error.clone())));
    }
    pub fn shut(&self) {
        self.lock().shut = true;
        (0..self.wakers.len()).for_each(|lane| self.wake(lane));
    }
    pub fn is_shut(&self) -> bool {
        self.lock().shut
    }
    /// Wakes a lane; a full pipe wakes as well.
    fn wake(&self, lane: usize) {
        let _ = (&self.wakers[lane]).write(&[0]);
    }
}
