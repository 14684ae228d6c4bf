//! One error type for the whole house: a kind that says what to do next, a message that says what happened.
//!
//! Why so: retry policy, exit codes and blame are decided by the kind alone (`docs/workflows.md`), so every crate that can fail
//! returns this type at its edge. Refuses: matching on message text.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a caller should do about an error. Retry policy reads nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ErrorKind {
    /// The file, an option or an argument is wrong; running again changes nothing.
    Invalid,
    /// A passing fault (network, a busy resource); the same call may succeed.
    Retryable,
    /// The attempt's process, machine or an object it needs disappeared.
    Lost,
    /// Someone asked for the work to stop.
    Cancelled,
    /// An input holds something that it must not hold (corrupt file, wrong schema, NaN).
    Data,
    /// Our own mistake.
    Bug,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Invalid => "invalid",
            Self::Retryable => "retryable",
            Self::Lost => "lost",
            Self::Cancelled => "cancelled",
            Self::Data => "data",
            Self::Bug => "bug",
        })
    }
}

/// An error with its kind, a lower-case message that names the thing and the place, and optionally what to do next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Error {
    pub kind: ErrorKind,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

/// What everything in this house returns that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub fn new(kind: ErrorKind, message: impl fmt::Display) -> Self {
        Self { kind, message: message.to_string(), help: None }
    }
    pub fn invalid(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }
    pub fn retryable(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Retryable, message)
    }
    pub fn lost(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Lost, message)
    }
    pub fn cancelled(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Cancelled, message)
    }
    pub fn data(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Data, message)
    }
    pub fn bug(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Bug, message)
    }
    /// Adds what to do next.
    #[must_use]
    pub fn help(mut self, help: impl fmt::Display) -> Self {
        self.help = Some(help.to_string());
        self
    }
    /// Puts the place in front of the message: `context: message`.
    #[must_use]
    pub fn at(mut self, context: impl fmt::Display) -> Self {
        self.message = format!("{context}: {}", self.message);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.help {
            Some(help) => write!(f, "; {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {}

/// Puts a place in front of an error's message.
pub trait Context<T> {
    fn at(self, context: impl fmt::Display) -> Result<T>;
}

impl<T> Context<T> for Result<T> {
    fn at(self, context: impl fmt::Display) -> Result<T> {
        self.map_err(|e| e.at(context))
    }
}

/// A file error becomes: missing → invalid, no space or interrupted → retryable, anything else → data.
pub fn io_error(path: &std::path::Path, error: &std::io::Error) -> Error {
    use std::io::ErrorKind as Io;
    let message = format!("{}: {error}", path.display());
    match error.kind() {
        Io::NotFound => Error::invalid(message),
        Io::StorageFull => Error::retryable(message).help("free some space, then run the same command again"),
        Io::Interrupted | Io::TimedOut | Io::WouldBlock => Error::retryable(message),
        _ => Error::data(message),
    }
}
