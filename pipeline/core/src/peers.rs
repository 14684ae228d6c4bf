//! Attempts that run at the same time and have to find each other: the processes of a stage on several machines, and
//! the stages of a group.
//!
//! Each process says in its attempt's folder where it is reached and, if it is not the first of its attempt, how it
//! ended (`nodes/<rank>.json`, `nodes/<rank>.end.json`, both written once). Nothing but these objects connects them, so
//! it is the same on every executor.

use crate::error::Error;
use crate::ids::{AttemptNumber, StageKey};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long a process that runs waits for its peers, unless `resources: {wait: …}` says less. Then it gives its
/// machine back: two groups that each got a part of what they need must not hold it for ever.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// One attempt among those that run at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// The stage instance.
    pub stage: StageKey,
    /// Number of its attempt.
    pub attempt: AttemptNumber,
    /// Machines that it runs on, one process on each.
    pub nodes: u32,
}

/// Where a process of an attempt is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAddress {
    /// Version of this form: 1.
    pub format: u32,
    /// Number of the process in its attempt, from 0.
    pub rank: u32,
    /// Name of its machine.
    pub host: String,
    /// The machine's address on the network.
    pub ip: String,
    /// A port of that machine that was free.
    pub port: u16,
}

impl NodeAddress {
    /// How `other` reaches it: `host:port`. Processes of one machine meet on its loopback.
    pub fn from(&self, other: &Self) -> String {
        let here = self.host == other.host && self.ip == other.ip;
        let ip = if here { "127.0.0.1" } else { self.ip.as_str() };
        if ip.contains(':') { format!("[{ip}]:{}", self.port) } else { format!("{ip}:{}", self.port) }
    }
}

/// How a process of an attempt ended that is not its first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeEnd {
    /// Version of this form: 1.
    pub format: u32,
    /// Number of the process in its attempt, from 1.
    pub rank: u32,
    /// Why it failed; none if it ended well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}

/// The part of an environment variable's name that stands for a stage: `rollout_server` becomes `ROLLOUT_SERVER`. Axes
/// of an instance and the prefix of an embedding file are left out.
pub fn variable(stage: &StageKey) -> String {
    let id = stage.stage_id();
    let last = id.rsplit('/').next().unwrap_or(id);
    last.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, ip: &str, port: u16) -> NodeAddress {
        NodeAddress { format: 1, rank: 0, host: host.into(), ip: ip.into(), port }
    }

    #[test]
    fn processes_of_one_machine_meet_on_its_loopback() {
        let server = at("a", "10.0.0.7", 80);
        assert_eq!(server.from(&at("a", "10.0.0.7", 81)), "127.0.0.1:80");
        assert_eq!(server.from(&at("b", "10.0.0.8", 80)), "10.0.0.7:80");
        assert_eq!(server.from(&at("a", "10.0.0.9", 80)), "10.0.0.7:80", "two containers of one name");
        assert_eq!(at("a", "fd00::1", 80).from(&server), "[fd00::1]:80");
    }

    #[test]
    fn a_stage_has_a_name_in_the_environment() {
        let name = |key: &str| variable(&StageKey(key.into()));
        assert_eq!(name("rollout_server"), "ROLLOUT_SERVER");
        assert_eq!(name("outer/server[seed=1]"), "SERVER");
    }
}
