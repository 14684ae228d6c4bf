//! The interface between a lane and the protocol of its workers.

use super::queued_job::WorkerExitCause;
use crate::program::ChildProgram;
use std::process::ExitStatus;
use std::time::Duration;
use trainyard_core::{Error, Result};

/// Maximum jobs of a worker at a time.
#[derive(Debug, Clone, Copy)]
pub struct LaneCapacity {
    /// Maximum open jobs with which one for any worker is taken.
    pub common: usize,
    /// Maximum open jobs with which one for this worker is taken.
    pub own: usize,
    /// Whether jobs are sent only when none is open. The end of a worker during such a batch counts for none of its
    /// jobs, even if there was only one.
    pub in_batches: bool,
}

/// Content of a frame of a worker.
#[derive(Debug)]
pub struct DecodedFrame<R> {
    /// Responses by the numbers of their jobs.
    pub responses: Vec<(u64, R)>,
    /// Bytes to send to the worker.
    pub reply: Vec<u8>,
}

impl<R> Default for DecodedFrame<R> {
    fn default() -> Self {
        Self { responses: Vec::new(), reply: Vec::new() }
    }
}

/// Reason that a job has no response.
#[derive(Debug)]
pub enum WorkerFailure {
    /// No worker starts.
    Start(Error),
    /// The worker with the state of this job ended; `late` if it exceeded the time limit of this job.
    State { error: Error, late: bool },
    /// The job is at fault for the end of workers, the last of which had this cause.
    Deaths { error: Error, cause: WorkerExitCause },
    /// The supervisor is shut down.
    Shut,
}

/// Protocol of one lane's workers, one after the other. A life is the number of a worker in its lane, from 1.
pub trait WorkerWire: Send + 'static {
    /// A request with its claim.
    type Job: Send;
    /// Response to a job.
    type Response;
    /// Maximum jobs of a worker at a time.
    const CAPACITY: LaneCapacity;

    /// Starts a worker. Errors: those of its start.
    fn start(&mut self) -> Result<ChildProgram>;
    /// Returns the bytes that a fresh worker is sent first.
    fn greeting(&mut self) -> Vec<u8>;
    /// Returns whether the worker has reported that it is ready, if it must.
    fn is_ready(&self) -> bool {
        true
    }
    /// Settles a job that must not be sent to the worker of this life (`None`: no worker runs), or returns it.
    fn settle_unsent(&mut self, job: Self::Job, life: Option<u64>) -> Option<Self::Job>;
    /// Adds a job to the next bytes to send. Returns it if it has a response.
    fn encode(&mut self, job: Self::Job, number: u64, life: u64) -> Option<Self::Job>;
    /// Takes the bytes of all added jobs, and the time limit of each response; `None` without a job.
    fn take_bytes(&mut self) -> Option<(Vec<u8>, Duration)>;
    /// Decodes a frame. Errors: description of the fault; the worker is ended.
    fn decode(&mut self, frame: &[u8]) -> Result<DecodedFrame<Self::Response>, String>;
    /// Resolves a job with its response, or returns the job if it must be sent again.
    fn settle(&mut self, job: Self::Job, response: Self::Response, life: u64) -> Option<Self::Job>;
    /// Reports to the requester that there is no response.
    fn fail(&mut self, job: Self::Job, failure: WorkerFailure);
    /// Returns whether a job requires the state of its worker, so that another worker cannot have it.
    fn is_bound(&self, _job: &Self::Job) -> bool {
        false
    }
    /// Returns whether a worker that ended with this status crashed because of its job.
    fn is_own_death(&self, _status: ExitStatus) -> bool {
        false
    }
}
