//! Defines the protocol between an engine and its host: JSON Lines in both directions.

use serde::{Deserialize, Serialize};
use trainyard_core::Error;
use trainyard_core::attempt::{AttemptMessage, AttemptResult, AttemptSpec};

/// Prefix of a host's name, which replaces the attempt folder in a URL. Attempt folders never begin with this prefix.
const PREFIX: &str = "host-";

/// Request of the engine. A host never gets the same attempt number twice.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostRequest {
    /// Run an attempt.
    Start {
        /// Number of the attempt.
        id: u64,
        /// URL of the attempt, which marks all processes that it starts.
        url: String,
        spec: Box<AttemptSpec>,
        /// Whether the lock of its slots is sent with this line.
        lock: bool,
    },
    /// Request an attempt to stop.
    Stop {
        /// Number of the attempt.
        id: u64,
        /// Whether its timeout has passed.
        timed_out: bool,
    },
    /// Kill an attempt and all processes that it started.
    Kill {
        /// Number of the attempt.
        id: u64,
    },
}

/// Report of the host.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostReport {
    /// Message of an attempt.
    Message {
        /// Number of the attempt.
        id: u64,
        message: AttemptMessage,
    },
    /// An attempt is over, and all processes that it started have ended.
    Ended {
        /// Number of the attempt.
        id: u64,
        /// Whether its result is in the store.
        stored: bool,
        /// The stored result, unless it is too long for a line.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Box<AttemptResult>>,
        /// Why there is no result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Error>,
    },
}

/// Maximum bytes in a line of the host; the reader drops the rest of a longer one.
const LONGEST: usize = 512 * 1024;
/// Maximum characters of an error that does not fit into a line.
const SHORT: usize = 4_096;

impl HostReport {
    /// Encodes one line, with its newline. An end that is too long for a line is shortened rather than dropped.
    pub fn to_line(&self) -> Vec<u8> {
        match (encode(self), self) {
            (Some(line), Self::Message { .. }) => line,
            (Some(line), _) if line.len() <= LONGEST => line,
            (_, Self::Ended { id, stored, error, .. }) => {
                let error = error.as_ref().map(|error| Error {
                    message: error.message.chars().take(SHORT).collect(),
                    source: None,
                    ..error.clone()
                });
                encode(&Self::Ended { id: *id, stored: *stored, result: None, error }).unwrap_or_default()
            }
            (None, Self::Message { .. }) => Vec::new(),
        }
    }
}

fn encode(report: &HostReport) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(report).ok()?;
    line.push(b'\n');
    Some(line)
}

/// Returns the URL of a host: the URL of its store, and a name that is unique on this machine.
pub(super) fn host_url(store: &str, number: u64) -> String {
    format!("{store}#{PREFIX}{}-{number}", std::process::id())
}

/// Returns whether the URL passed to the program is that of a host instead of an attempt.
pub fn is_host(url: &str) -> bool {
    url.rsplit_once('#').is_some_and(|(_, folder)| folder.starts_with(PREFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_end_report_is_shortened_to_fit_a_line() {
        let long = Error::data("x".repeat(2 * LONGEST)).caused_by(&std::io::Error::other("y".repeat(LONGEST)));
        for (stored, error) in [(false, Some(long)), (true, None), (false, Some(Error::data("short")))] {
            let line = HostReport::Ended { id: 7, stored, result: None, error: error.clone() }.to_line();
            assert!(line.len() <= LONGEST && line.ends_with(b"\n"));
            let Ok(HostReport::Ended { id: 7, stored: found, error: decoded, .. }) = serde_json::from_slice(&line)
            else {
                panic!("{}", String::from_utf8_lossy(&line))
            };
            assert_eq!((found, decoded.map(|e| e.kind)), (stored, error.map(|e| e.kind)));
        }
    }

    #[test]
    fn host_url_is_distinguished_from_attempt_url() {
        assert!(is_host(&host_url("file:///c#/host-1", 3)));
        assert!(!is_host("file:///host-1#runs/2026-11/x/attempts/a/1"));
        assert!(!is_host("file:///host-1"));
        assert_ne!(host_url("file:///s", 1), host_url("file:///s", 2));
    }
}
