//! Supervised worker processes of any protocol: started with the first job, restarted when they die, killed when they
//! hang, ended with their owner.
//!
//! A supervisor has lanes, each with a thread and one process at a time. A [`Wire`] is the protocol of a lane. Jobs are
//! for any lane, or for one; a lane sends its own jobs in order.
mod entry;
mod lane;
mod queue;
mod wire;

pub use entry::Death;
pub use lane::Described;
pub use wire::{Capacity, Decoded, Failure, Wire};

use crate::program::unblocked;
use lane::Lane;
use queue::Queue;
use std::io::{self, PipeReader, PipeWriter};
use std::sync::Arc;
use std::thread::JoinHandle;

/// The lanes of one kind of worker. Their processes end when this is dropped.
pub struct Supervisor<J> {
    queue: Arc<Queue<J>>,
    threads: Vec<JoinHandle<()>>,
}

impl<J: Send + 'static> Supervisor<J> {
    /// Starts the threads of these lanes, called `name` and their number. Errors: the lane that cannot be started, and
    /// why.
    pub fn start<W: Wire<Job = J>>(
        name: &str,
        described: Described,
        wires: Vec<W>,
    ) -> Result<Self, (usize, io::Error)> {
        let (mut readers, mut wakers) = (Vec::new(), Vec::new());
        for number in 0..wires.len() {
            let (reader, waker) = pipe().map_err(|e| (number, e))?;
            readers.push(reader);
            wakers.push(waker);
        }
        let described = Arc::new(described);
        let mut supervisor = Self { queue: Arc::new(Queue::new(wakers)), threads: Vec::new() };
        for (number, (wire, reader)) in wires.into_iter().zip(readers).enumerate() {
            let lane = Lane::new(number, Arc::clone(&supervisor.queue), Arc::clone(&described), wire, reader);
            let thread = std::thread::Builder::new().name(format!("{name}-{number}"));
            supervisor.threads.push(thread.spawn(move || lane.run()).map_err(|e| (number, e))?);
        }
        Ok(supervisor)
    }
}

/// Returns a nonblocking pipe.
fn pipe() -> io::Result<(PipeReader, PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    unblocked(&reader).and_then(|()| unblocked(&writer))?;
    Ok((reader, writer))
}

impl<J> Supervisor<J> {
    /// Returns the number of lanes.
    pub fn lanes(&self) -> usize {
        self.queue.lanes()
    }
    /// Queues a job for any lane.
    pub fn put(&self, job: J) {
        self.queue.put(job);
    }
    /// Queues a job for one lane after its earlier ones.
    pub fn put_on(&self, lane: usize, job: J) {
        self.queue.put_on(lane, job);
    }
    /// Queues a job for one lane that may wait for the next one, unless many wait.
    pub fn put_later(&self, lane: usize, job: J) {
        self.queue.put_later(lane, job);
    }
    /// Returns the process ids of the running workers.
    pub fn worker_ids(&self) -> Vec<u32> {
        self.queue.worker_ids()
    }
    /// Requests the end of the processes.
    pub fn shut(&self) {
        self.queue.shut();
    }
    /// Returns whether all processes have ended after [`Supervisor::shut`].
    pub fn has_ended(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }
}

impl<J> Drop for Supervisor<J> {
    fn drop(&mut self) {
        self.queue.shut();
        for thread in self.threads.drain(..) {
            // After a panic the process has already ended with its thread.
            let _ = thread.join();
        }
    }
}
