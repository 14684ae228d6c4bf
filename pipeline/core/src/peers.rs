//! Connects attempts that run at the same time: the processes of a stage on several machines, and the stages of a
//! group.
//!
//! Each process writes its address to its attempt's folder (`nodes/<rank>.json`), and every process but the first of an
//! attempt also writes its end (`nodes/<rank>.end.json`). Both files are written once. Processes find each other only
//! through these files, so the mechanism is the same on every executor.

use crate::error::Error;
use crate::ids::{AttemptNumber, StageKey};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Maximum time for which a running process waits for its peers, unless `resources: {wait: …}` is shorter. After that
/// time the process ends and releases its machine, since two groups that each hold a part of their machines would
/// otherwise wait forever.
pub const DEFAULT_PEER_WAIT: Duration = Duration::from_secs(600);

/// One attempt among those that run at the same time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptPeer {
    /// Stage instance.
    pub stage: StageKey,
    /// Attempt number.
    pub attempt: AttemptNumber,
    /// Number of machines, one process on each.
    pub nodes: u32,
}

/// Address of a process of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAddress {
    /// Format version: 1.
    pub format: u32,
    /// Number of the process in its attempt, from 0.
    pub rank: u32,
    /// Name of the machine.
    pub host: String,
    /// Address of the machine on the network.
    pub ip: String,
    /// Free port of that machine.
    pub port: u16,
    /// Step of the resume point that the process continues from; `None` if it begins anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<u64>,
}

impl NodeAddress {
    /// Returns the address at which `other` reaches this process: `host:port`. Processes of one machine use its
    /// loopback.
    pub fn from(&self, other: &Self) -> String {
        let same_machine = self.host == other.host && self.ip == other.ip;
        let ip = if same_machine { "127.0.0.1" } else { self.ip.as_str() };
        if ip.contains(':') { format!("[{ip}]:{}", self.port) } else { format!("{ip}:{}", self.port) }
    }
}

/// End of a process that is not the first of its attempt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeEnd {
    /// Format version: 1.
    pub format: u32,
    /// Number of the process in its attempt, from 1.
    pub rank: u32,
    /// Cause of a failure; `None` after success.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Error>,
}

/// Returns the part of an environment variable's name that identifies a stage: `rollout_server` becomes
/// `ROLLOUT_SERVER`. Axes of an instance and the prefix of an embedding file are left out.
pub fn env_suffix(stage: &StageKey) -> String {
    let id = stage.stage_id();
    let last = id.rsplit('/').next().unwrap_or(id);
    last.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, ip: &str, port: u16) -> NodeAddress {
        NodeAddress { format: 1, rank: 0, host: host.into(), ip: ip.into(), port, resumed: None }
    }

    #[test]
    fn peers_on_one_machine_use_the_loopback() {
        let server = at("a", "10.0.0.7", 80);
        assert_eq!(server.from(&at("a", "10.0.0.7", 81)), "127.0.0.1:80");
        assert_eq!(server.from(&at("b", "10.0.0.8", 80)), "10.0.0.7:80");
        assert_eq!(server.from(&at("a", "10.0.0.9", 80)), "10.0.0.7:80", "two containers of one name");
        assert_eq!(at("a", "fd00::1", 80).from(&server), "[fd00::1]:80");
    }

    #[test]
    fn stage_id_becomes_an_environment_name() {
        let name = |key: &str| env_suffix(&StageKey(key.into()));
        assert_eq!(name("rollout_server"), "ROLLOUT_SERVER");
        assert_eq!(name("outer/server[seed=1]"), "SERVER");
    }
}
