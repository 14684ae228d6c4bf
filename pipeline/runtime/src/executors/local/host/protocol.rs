//! What an engine and its host say to each other: JSON Lines, both ways.

use serde::{Deserialize, Serialize};
use trainyard_core::Error;
use trainyard_core::attempt::{AttemptMessage, AttemptResult, AttemptSpec};

/// In front of a host's name, where the URL of an attempt has its folder. Folders of attempts begin in another way.
const PREFIX: &str = "host-";

/// What the engine orders. Attempts have numbers that one host is never given twice.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Carry out an attempt.
    Start {
        /// Its number.
        id: u64,
        /// Its URL, which marks all that it starts.
        url: String,
        /// What it is told.
        spec: Box<AttemptSpec>,
        /// Whether the lock of its slots comes with this line.
        lock: bool,
    },
    /// Ask an attempt to stop.
    Stop {
        /// Its number.
        id: u64,
        /// Whether its time is up.
        timed_out: bool,
    },
    /// End an attempt and all that it started.
    Kill {
        /// Its number.
        id: u64,
    },
}

/// What the host says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// An attempt said something.
    Message {
        /// The attempt's number.
        id: u64,
        /// What it said.
        message: AttemptMessage,
    },
    /// An attempt is over, and nothing that it started runs any more.
    Ended {
        /// The attempt's number.
        id: u64,
        /// Whether its result is in the store.
        stored: bool,
        /// That result, unless it is long.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Box<AttemptResult>>,
        /// Why there is no result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Error>,
    },
}

/// Bytes of the longest line that a host says; whoever listens drops the rest of a longer one.
const LONGEST: usize = 512 * 1024;
/// Characters of an error that does not fit a line.
const SHORT: usize = 4_096;

impl Said {
    /// One line, with its end. What an attempt left or failed of is told in short rather than not at all.
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

fn encode(said: &Said) -> Option<Vec<u8>> {
    let mut line = serde_json::to_vec(said).ok()?;
    line.push(b'\n');
    Some(line)
}

/// The URL of a host: that of its store, and a name that no other host of this machine has.
pub(super) fn host_url(store: &str, number: u64) -> String {
    format!("{store}#{PREFIX}{}-{number}", std::process::id())
}

/// Whether the URL that a program is started with as an attempt makes it a host.
pub fn is_host(url: &str) -> bool {
    url.rsplit_once('#').is_some_and(|(_, folder)| folder.starts_with(PREFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_an_attempt_fits_a_line_whatever_it_says() {
        let long = Error::data("x".repeat(2 * LONGEST)).caused_by(&std::io::Error::other("y".repeat(LONGEST)));
        for (stored, error) in [(false, Some(long)), (true, None), (false, Some(Error::data("short")))] {
            let line = Said::Ended { id: 7, stored, result: None, error: error.clone() }.to_line();
            assert!(line.len() <= LONGEST && line.ends_with(b"\n"));
            let Ok(Said::Ended { id: 7, stored: found, error: told, .. }) = serde_json::from_slice(&line) else {
                panic!("{}", String::from_utf8_lossy(&line))
            };
            assert_eq!((found, told.map(|e| e.kind)), (stored, error.map(|e| e.kind)));
        }
    }

    #[test]
    fn a_host_is_told_from_an_attempt_whatever_the_path_of_the_store_holds() {
        assert!(is_host(&host_url("file:///c#/host-1", 3)));
        assert!(!is_host("file:///host-1#runs/2026-11/x/attempts/a/1"));
        assert!(!is_host("file:///host-1"));
        assert_ne!(host_url("file:///s", 1), host_url("file:///s", 2));
    }
}
