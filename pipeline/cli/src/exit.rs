//! Defines the exit codes (`docs/workflows.md`): 0 done; 1 the run failed; 2 the file or the arguments are invalid, or
//! a stage can never be placed; 3 the store or executor could not be reached, or another writer took over the run; 130
//! interrupted.

use trainyard_core::{Error, ErrorKind};

/// Exit code of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CliExit {
    /// The command succeeded.
    Done = 0,
    /// The run or a check failed.
    Failed = 1,
    /// The file or the arguments are invalid.
    Invalid = 2,
    /// The store or an executor could not be reached.
    Unreachable = 3,
    /// The command was interrupted.
    Interrupted = 130,
}

impl From<&Error> for CliExit {
    fn from(error: &Error) -> Self {
        match error.kind {
            ErrorKind::Invalid => Self::Invalid,
            ErrorKind::Retryable | ErrorKind::Lost => Self::Unreachable,
            ErrorKind::Cancelled => Self::Interrupted,
            ErrorKind::Data | ErrorKind::Bug => Self::Failed,
        }
    }
}
