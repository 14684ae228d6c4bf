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
        /// Its result, which is in the store.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<Box<AttemptResult>>,
        /// Why there is no result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Error>,
    },
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
    fn a_host_is_told_from_an_attempt_whatever_the_path_of_the_store_holds() {
        assert!(is_host(&host_url("file:///c#/host-1", 3)));
        assert!(!is_host("file:///host-1#runs/2026-11/x/attempts/a/1"));
        assert!(!is_host("file:///host-1"));
        assert_ne!(host_url("file:///s", 1), host_url("file:///s", 2));
    }
}
