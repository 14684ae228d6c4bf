//! Defines the failures of a request to a program.

use serde::Deserialize;
use std::fmt;
use trainyard_core::Error;

/// An exception of user-defined code.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
pub struct ProgramException {
    /// Type: `ValueError`.
    #[serde(default, rename = "type")]
    pub kind: String,
    #[serde(default)]
    pub message: String,
    /// Traceback, in several lines.
    #[serde(default)]
    pub traceback: String,
}

impl fmt::Display for ProgramException {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind.as_str(), self.message.as_str()) {
            ("", "") => f.write_str("an exception without a message"),
            ("", message) => f.write_str(message),
            (kind, "") => f.write_str(kind),
            (kind, message) => write!(f, "{kind}: {message}"),
        }
    }
}

impl std::error::Error for ProgramException {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        None
    }
}

/// The traceback of an exception as the cause of an error.
#[derive(Debug)]
struct Traceback(String);

impl fmt::Display for Traceback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Traceback {}

impl ProgramException {
    /// Returns an error of the kind data, with the traceback as its cause.
    pub fn error(&self) -> Error {
        let error = Error::data(self).help("fix the program");
        let trace = self.traceback.trim_end();
        if trace.is_empty() { error } else { error.caused_by(&Traceback(trace.to_string())) }
    }
}

/// Failure of a request without a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramFault {
    /// The program does not start, or it died or hung during this request as often as permitted. The request is not at
    /// fault.
    Outage(Error),
    /// The process with the state of this request has ended; the state can be rebuilt in another one.
    Lost(Error),
    /// The process with the state of this request exceeded the timeout and was killed.
    TimedOut(Error),
    /// The program's code raised an exception.
    Exception(ProgramException),
}

impl From<ProgramFault> for Error {
    fn from(fault: ProgramFault) -> Self {
        match fault {
            ProgramFault::Outage(error) | ProgramFault::Lost(error) | ProgramFault::TimedOut(error) => error,
            ProgramFault::Exception(raised) => raised.error(),
        }
    }
}
