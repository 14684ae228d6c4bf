//! Defines the interface between a lane and the protocol of its workers.

use super::queued_job::WorkerExitCause;
use crate::program::ChildProgram;
use std::process::ExitStatus;
use std::time::Duration;
use trainyard_core::{Error, Result};

/// Maximum open jobs of a worker.
#[derive(Debug, Clone, Copy)]
pub struct LaneCapacity {
    /// Number of open jobs below which the lane takes a job for any lane.
    pub common: usize,
    /// Number of open jobs below which the lane takes one of its reserved jobs.
    pub own: usize,
    /// Whether jobs are sent only when none is open. If a worker ends during such a batch, no job of the batch counts
    /// as alone, even if the batch had only one.
    pub in_batches: bool,
}

/// Content of a frame of a worker.
#[derive(Debug)]
pub struct DecodedFrame<R> {
    /// Responses by the numbers of their jobs.
    pub responses: Vec<(u64, R)>,
    /// Bytes to send to the worker in reply.
    pub reply: Vec<u8>,
}

impl<R> Default for DecodedFrame<R> {
    fn default() -> Self {
        Self { responses: Vec::new(), reply: Vec::new() }
    }
}

/// Reason why a job has no response.
#[derive(Debug)]
pub enum WorkerFailure {
    /// No worker starts.
    Start(Error),
    /// The worker that held the state of this job ended; `late` if this job exceeded its time limit.
    State { error: Error, late: bool },
    /// Workers ended because of the job; the last end had this cause.
    Deaths { error: Error, cause: WorkerExitCause },
    /// The supervisor was shut down.
    Shut,
}

/// Protocol of one lane's workers, of which one runs at a time. A life is the number of a worker in its lane, from 1.
pub trait WorkerWire: Send + 'static {
    /// A request with the responder of its result.
    type Job: Send;
    /// Response to a job.
    type Response;
    /// Maximum open jobs of a worker.
    const CAPACITY: LaneCapacity;

    /// Starts a worker process. Errors: the process cannot be started.
    fn start(&mut self) -> Result<ChildProgram>;
    /// Returns the first bytes for a fresh worker, and resets the state of the previous one.
    fn greeting(&mut self) -> Vec<u8>;
    /// Returns whether the worker accepts jobs. A protocol without a ready message returns true.
    fn is_ready(&self) -> bool {
        true
    }
    /// Resolves a job that must not be sent to the worker of this life (`None` if no worker runs), or returns the job.
    fn settle_unsent(&mut self, job: Self::Job, life: Option<u64>) -> Option<Self::Job>;
    /// Adds a job to the next bytes to send. Returns the job if it expects a response.
    fn encode(&mut self, job: Self::Job, number: u64, life: u64) -> Option<Self::Job>;
    /// Takes the bytes of all added jobs, with the time limit of each response. Returns `None` if no job was added.
    fn take_bytes(&mut self) -> Option<(Vec<u8>, Duration)>;
    /// Decodes a frame. Errors: a description of the fault; the worker is ended.
    fn decode(&mut self, frame: &[u8]) -> Result<DecodedFrame<Self::Response>, String>;
    /// Resolves a job with its response, or returns the job if it must be sent again.
    fn settle(&mut self, job: Self::Job, response: Self::Response, life: u64) -> Option<Self::Job>;
    /// Resolves a job with the failure.
    fn fail(&mut self, job: Self::Job, failure: WorkerFailure);
    /// Returns whether a job requires the state of its worker, so that no other worker can process it.
    fn is_bound(&self, _job: &Self::Job) -> bool {
        false
    }
    /// Returns whether this exit status shows that the worker crashed because of its job.
    fn is_own_death(&self, _status: ExitStatus) -> bool {
        false
    }
}
