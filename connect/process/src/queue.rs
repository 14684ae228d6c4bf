//! The queue of the processes of a program: requests for any of them, and requests for one.

use crate::fault::ProgramFault;
use crate::response::ProgramResponder;
use crate::wire::ProgramRequest;
use std::collections::VecDeque;
use std::io::{PipeWriter, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use trainyard_core::Error;

/// A request with its claim.
pub struct QueuedRequest {
    /// Request; `None` requests the features that the program reported when it was ready.
    pub request: Option<ProgramRequest>,
    pub responder: ProgramResponder,
    /// Process with the request's state, if it has any.
    pub generation: Option<u64>,
    /// Whether a process died while the request was open: it is then sent alone.
    pub suspect: bool,
    /// Number of processes that died during the request while it was alone.
    pub deaths: u32,
}

impl QueuedRequest {
    pub fn new(request: Option<ProgramRequest>, responder: ProgramResponder, life: Option<u64>) -> Self {
        Self { request, responder, generation: life, suspect: false, deaths: 0 }
    }
    pub fn fail(self, fault: ProgramFault) {
        self.responder.respond(Err(fault));
    }
}

/// Queue shared by all lanes.
pub struct ProgramQueue {
    state: Mutex<QueueState>,
    wakers: Vec<PipeWriter>,
}

struct QueueState {
    common: VecDeque<QueuedRequest>,
    own: Vec<VecDeque<QueuedRequest>>,
    shut: bool,
}

impl ProgramQueue {
    /// Creates a queue with one waker for each lane.
    pub fn new(wakers: Vec<PipeWriter>) -> Self {
        let own = wakers.iter().map(|_| VecDeque::new()).collect();
        Self { state: Mutex::new(QueueState { common: VecDeque::new(), own, shut: false }), wakers }
    }
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
    pub fn workers(&self) -> usize {
        self.wakers.len()
    }
    /// Queues a job for any lane.
    pub fn put(&self, job: QueuedRequest) {
        self.lock().common.push_back(job);
        (0..self.wakers.len()).for_each(|lane| self.wake(lane));
    }
    /// Queues a job for one lane.
    pub fn put_on(&self, lane: usize, job: QueuedRequest) {
        self.lock().own[lane].push_back(job);
        self.wake(lane);
    }
    /// Takes the next job for a lane with this many open ones.
    pub fn take(&self, lane: usize, open: usize) -> Option<QueuedRequest> {
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
        waiting.into_iter().for_each(|job| job.fail(ProgramFault::Outage(error.clone())));
    }
    pub fn shut_down(&self) {
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
