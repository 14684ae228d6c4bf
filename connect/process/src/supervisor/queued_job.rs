//! Tracks the workers that ended during a job, and decides when the job is at fault.
//!
//! A worker that ends loses all its open jobs, so each of them is sent again alone. A job is at fault if, while it is
//! alone, a worker exceeds the time limit, a fresh worker crashes, or [`DEATHS`] workers end for other causes.

/// Number of workers that end for other causes while a job is alone, at which the job is at fault.
const DEATHS: u32 = 3;

/// Cause of a worker's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerExitCause {
    /// The worker exceeded the time limit and was killed.
    Late,
    /// The worker crashed because of its job.
    Own,
    /// Any other cause: it exited, was killed from outside, or violated the protocol.
    Foreign,
}

/// A job with its counters.
pub struct QueuedJob<J> {
    pub job: J,
    /// Whether a worker ended while the job was open. The job is then sent alone.
    pub suspect: bool,
    /// Whether a worker ended while the job was alone, so that the current worker is fresh.
    fresh: bool,
    /// Number of workers that ended for an unknown cause while the job was alone.
    deaths: u32,
}

impl<J> QueuedJob<J> {
    pub fn new(job: J) -> Self {
        Self { job, suspect: false, fresh: false, deaths: 0 }
    }
    /// Counts the end of a worker during the job, and returns whether the job is at fault. `alone` is true if no other
    /// job was open.
    pub fn is_at_fault(&mut self, cause: WorkerExitCause, alone: bool) -> bool {
        self.suspect = true;
        if !alone {
            return false;
        }
        let fresh = std::mem::replace(&mut self.fresh, true);
        match cause {
            WorkerExitCause::Late => true,
            WorkerExitCause::Own => fresh,
            WorkerExitCause::Foreign => {
                self.deaths += 1;
                self.deaths == DEATHS
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of ends, all of one cause and alone, after which a job is at fault.
    fn ends(cause: WorkerExitCause) -> usize {
        let mut entry = QueuedJob::new(());
        assert!(!entry.is_at_fault(cause, false) && entry.suspect, "{cause:?} among others");
        (1..10).find(|_| entry.is_at_fault(cause, true)).expect("a fault")
    }

    #[test]
    fn job_is_at_fault_only_alone() {
        assert_eq!([WorkerExitCause::Late, WorkerExitCause::Own, WorkerExitCause::Foreign].map(ends), [1, 2, 3]);
    }

    #[test]
    fn crash_on_fresh_worker_is_fault_of_job() {
        let mut entry = QueuedJob::new(());
        assert!(!entry.is_at_fault(WorkerExitCause::Foreign, true));
        assert!(entry.is_at_fault(WorkerExitCause::Own, true));
    }
}
