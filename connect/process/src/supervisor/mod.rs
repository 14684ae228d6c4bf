//! Supervises worker processes of any protocol. It starts them with the first job, restarts those that die, kills those
//! that hang, and ends all when it is dropped.
//!
//! A supervisor has lanes, each with a thread and one process at a time. A [`WorkerWire`] implements the protocol of a
//! lane. A job is for any lane or for one lane; a lane sends its own jobs in order.
mod queue;
mod queued_job;
mod wire;
mod worker;

pub use queued_job::WorkerExitCause;
pub use wire::{DecodedFrame, LaneCapacity, WorkerFailure, WorkerWire};
pub use worker::SupervisedProgram;

use crate::program::set_nonblocking;
use queue::JobQueue;
use std::io::{self, PipeReader, PipeWriter};
use std::sync::Arc;
use std::thread::JoinHandle;
use worker::WorkerLane;

/// The lanes of one kind of worker. Dropping the supervisor ends their processes and waits for the threads.
pub struct Supervisor<J> {
    queue: Arc<JobQueue<J>>,
    threads: Vec<JoinHandle<()>>,
}

impl<J: Send + 'static> Supervisor<J> {
    /// Starts one thread for each wire, called `name` and its number. The processes start with the first job. Errors:
    /// the number of the lane that cannot be started, and the reason.
    pub fn start<W: WorkerWire<Job = J>>(
        name: &str,
        supervised: SupervisedProgram,
        wires: Vec<W>,
    ) -> Result<Self, (usize, io::Error)> {
        let (mut readers, mut wakers) = (Vec::new(), Vec::new());
        for number in 0..wires.len() {
            let (reader, waker) = pipe().map_err(|e| (number, e))?;
            readers.push(reader);
            wakers.push(waker);
        }
        let supervised = Arc::new(supervised);
        let mut supervisor = Self { queue: Arc::new(JobQueue::new(wakers)), threads: Vec::new() };
        for (number, (wire, reader)) in wires.into_iter().zip(readers).enumerate() {
            let lane = WorkerLane::new(number, Arc::clone(&supervisor.queue), Arc::clone(&supervised), wire, reader);
            let thread = std::thread::Builder::new().name(format!("{name}-{number}"));
            supervisor.threads.push(thread.spawn(move || lane.run()).map_err(|e| (number, e))?);
        }
        Ok(supervisor)
    }
}

/// Returns a nonblocking pipe.
fn pipe() -> io::Result<(PipeReader, PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    set_nonblocking(&reader).and_then(|()| set_nonblocking(&writer))?;
    Ok((reader, writer))
}

impl<J> Supervisor<J> {
    /// Returns the number of lanes.
    pub fn workers(&self) -> usize {
        self.queue.workers()
    }
    /// Queues a job for any lane.
    pub fn push(&self, job: J) {
        self.queue.push(job);
    }
    /// Queues a job for one lane, after the lane's earlier jobs.
    pub fn push_to(&self, lane: usize, job: J) {
        self.queue.push_to(lane, job);
    }
    /// Queues a job for one lane without waking an idle lane, unless many jobs are queued. The next job of
    /// [`Supervisor::push_to`] wakes the lane.
    pub fn push_back_to(&self, lane: usize, job: J) {
        self.queue.push_back_to(lane, job);
    }
    /// Returns the process ids of the running workers.
    pub fn worker_ids(&self) -> Vec<u32> {
        self.queue.worker_ids()
    }
    /// Requests the end of the processes without waiting.
    pub fn shut_down(&self) {
        self.queue.shut_down();
    }
    /// Returns whether all processes have ended after [`Supervisor::shut_down`].
    pub fn has_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }
}

impl<J> Drop for Supervisor<J> {
    fn drop(&mut self) {
        self.queue.shut_down();
        for thread in self.threads.drain(..) {
            // After a panic of the thread, its process has already ended.
            let _ = thread.join();
        }
    }
}
