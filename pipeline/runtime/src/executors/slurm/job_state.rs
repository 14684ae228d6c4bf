//! Maps Slurm's states of jobs to the states that the executor distinguishes.

/// A state as `squeue`, `sacct` and `scontrol` print it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum JobState {
    /// Waiting in the queue.
    Pending,
    /// Taken back into the queue after the start.
    Requeued,
    /// Holds nodes but does not run now, and why.
    Paused(&'static str),
    /// Holds nodes. A job that ends still holds its nodes until its last process has ended (COMPLETING). States of
    /// later versions count as active, since they end in one of the others.
    Active,
    /// Exit code 0.
    Completed,
    /// Another exit code, or a signal.
    Failed,
    /// Ended by the time limit or the deadline.
    TimedOut,
    /// The kernel killed a process for the job's memory limit.
    OutOfMemory,
    /// Cancelled by a user; `sacct` reports which.
    Cancelled {
        /// Number of that user.
        by: Option<u32>,
    },
    /// Lost its nodes, with Slurm's name of the state.
    Lost(&'static str),
}

/// States in which the machines, not the job, were at fault.
const LOST: [&str; 4] = ["NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "REVOKED"];
const REQUEUED: [&str; 4] = ["REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"];

impl JobState {
    pub fn parse(text: &str) -> Self {
        let mut words = text.split_whitespace();
        let word = words.next().unwrap_or_default();
        if let Some(lost) = LOST.iter().find(|lost| **lost == word) {
            return Self::Lost(lost);
        }
        match word {
            "PENDING" | "RESV_DEL_HOLD" => Self::Pending,
            "CONFIGURING" => Self::Paused("its nodes are being started"),
            "SUSPENDED" | "STOPPED" => Self::Paused("Slurm has suspended it"),
            "COMPLETED" => Self::Completed,
            "FAILED" => Self::Failed,
            "TIMEOUT" | "DEADLINE" => Self::TimedOut,
            "OUT_OF_MEMORY" => Self::OutOfMemory,
            // `CANCELLED by 1000`
            "CANCELLED" => Self::Cancelled { by: words.nth(1).and_then(|uid| uid.parse().ok()) },
            _ if REQUEUED.contains(&word) => Self::Requeued,
            _ => Self::Active,
        }
    }
    /// Returns whether no process of the job runs or will run.
    pub fn is_over(&self) -> bool {
        !matches!(self, Self::Pending | Self::Requeued | Self::Paused(_) | Self::Active)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn final_states_are_distinguished() {
        for text in ["RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "LATER_VERSION"] {
            assert_eq!(JobState::parse(text), JobState::Active, "{text}");
        }
        for text in ["PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "SUSPENDED", "RUNNING", "COMPLETING", ""] {
            assert!(!JobState::parse(text).is_over(), "{text}");
        }
        for text in ["COMPLETED", "FAILED", "TIMEOUT", "DEADLINE", "OUT_OF_MEMORY", "CANCELLED", "NODE_FAIL"] {
            assert!(JobState::parse(text).is_over(), "{text}");
        }
    }

    #[test]
    fn cancelling_user_is_parsed() {
        assert_eq!(JobState::parse("CANCELLED by 1000"), JobState::Cancelled { by: Some(1000) });
        for text in ["CANCELLED", "CANCELLED by", "CANCELLED by root"] {
            assert_eq!(JobState::parse(text), JobState::Cancelled { by: None }, "{text}");
        }
    }
}
