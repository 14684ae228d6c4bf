//! Lists the reasons why a program gave no result, with their messages to the agent.

use super::scratch::{MAX_BYTES, MAX_FILES};
use crate::tools::ToolLimits;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// Reason why a program gave no result. The process is unusable afterwards.
#[derive(Debug, PartialEq, Eq)]
pub enum CpythonFault {
    /// The program exceeded its time limit.
    TimedOut,
    Ended(ExitStatus),
    /// The program created too many or too large files.
    FilesFull,
    /// The process ended before it received the program.
    EarlyExit,
    /// The output was not exactly one reply.
    InvalidOutput,
    /// The caller has exited.
    CallerGone,
}

impl CpythonFault {
    /// Returns the message to the agent.
    pub fn describe(&self, limits: &ToolLimits) -> String {
        match self {
            Self::TimedOut => format!("TimeoutError: the call ran longer than {} ms", limits.time_millis),
            Self::Ended(status) => match status.signal() {
                Some(signal) => format!("SystemError: the interpreter was ended by signal {signal}"),
                None => {
                    let status = status.code().unwrap_or(0);
                    format!("SystemError: the program ended the interpreter with status {status}")
                }
            },
            Self::FilesFull => format!(
                "OSError: the program's files take more than {} MiB, or there are more than {}",
                MAX_BYTES >> 20,
                MAX_FILES
            ),
            Self::EarlyExit => "error: the interpreter was lost".to_string(),
            Self::InvalidOutput => "SystemError: the program broke the interpreter's answers".to_string(),
            Self::CallerGone => "error: the tool is shutting down".to_string(),
        }
    }
}
