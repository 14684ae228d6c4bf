//! Interprets the exit status of an attempt's process.

use super::super::AttemptExit;
use std::process::ExitStatus;
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{Error, ErrorKind};

/// Returns the end of an attempt with this error.
pub(super) fn failed(error: Error) -> AttemptExit {
    let outcome = match error.kind {
        ErrorKind::Lost => AttemptOutcome::Lost,
        ErrorKind::Cancelled => AttemptOutcome::Cancelled,
        _ => AttemptOutcome::Failed,
    };
    AttemptExit::with_error(outcome, error)
}

/// Returns the error of a process that left neither a result nor an error message.
pub(super) fn unexplained(status: &std::io::Result<ExitStatus>) -> Error {
    use std::os::unix::process::ExitStatusExt;
    let status = match status {
        Ok(status) => status,
        Err(e) => return Error::lost(format!("cannot wait for the attempt's process: {e}")),
    };
    match (status.code(), status.signal()) {
        (_, Some(9)) => Error::lost("the attempt's process was killed (signal 9)")
            .help("if the machine ran out of memory, reduce the memory use of the stage or use a larger machine"),
        (_, Some(signal @ (4 | 6 | 7 | 8 | 11 | 31))) => {
            Error::bug(format!("the attempt's process crashed (signal {signal})")).help("see its log")
        }
        (_, Some(signal)) => Error::lost(format!("the attempt's process was stopped from outside (signal {signal})")),
        (Some(0), _) => Error::lost("the attempt ended without a result").help("see its log"),
        (code, _) => {
            Error::bug(format!("the attempt's process ended with code {} without an error", code.unwrap_or(-1)))
                .help("see its log")
        }
    }
}
