//! Names processes uniquely, and checks whether the process with a name is still alive.
//!
//! Ownership of a run depends on names and liveness, so both are injected ([`MachineProcesses`]): in a simulation,
//! processes are tasks.

use std::fmt;
use std::str::FromStr;
use trainyard_core::{Digest, ProcessStat};

/// Processes of a machine, as seen by one of them.
pub trait MachineProcesses: Send + Sync {
    /// Returns the unique name of this process.
    fn own(&self) -> String;
    /// Returns whether the process with this name is alive; the name may have a suffix after a `:`. Returns `None` if
    /// the process is not visible from this machine, or the name cannot be parsed.
    fn is_alive(&self, name: &str) -> Option<bool>;
}

/// Processes of the machine that this program runs on.
pub struct LocalMachine;

impl MachineProcesses for LocalMachine {
    fn own(&self) -> String {
        ProcessId::own().to_string()
    }
    fn is_alive(&self, name: &str) -> Option<bool> {
        name.parse::<ProcessId>().ok()?.is_alive()
    }
}

/// Process of some machine: host, process id and start time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessId {
    /// Host name with a hash of its boot and process namespace: equal only where process ids have the same meaning.
    pub host: String,
    pub pid: u32,
    /// Start in clock ticks since boot; 0 = unknown.
    pub start: u64,
}

impl ProcessId {
    /// Returns the id of this process.
    pub fn own() -> Self {
        Self::of(std::process::id())
    }
    /// Returns the id of a process of this host.
    pub fn of(pid: u32) -> Self {
        Self { host: host(), pid, start: start_of(pid).unwrap_or(0) }
    }
    /// Returns whether the process is alive; `None` if it runs on another host.
    pub fn is_alive(&self) -> Option<bool> {
        if self.host != host() {
            return None;
        }
        Some(match start_of(self.pid) {
            Some(start) => self.start == 0 || start == self.start,
            None => !cfg!(target_os = "linux") && exists(self.pid),
        })
    }
}

/// Formats `<host>:<pid>:<start>`.
impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.host, self.pid, self.start)
    }
}

impl FromStr for ProcessId {
    type Err = ();
    /// Parses the first three fields; more may follow.
    fn from_str(text: &str) -> Result<Self, ()> {
        let mut fields = text.split(':');
        let mut next = || fields.next().ok_or(());
        Ok(Self {
            host: next()?.to_string(),
            pid: next()?.parse().map_err(|_| ())?,
            start: next()?.parse().map_err(|_| ())?,
        })
    }
}

/// Returns the name of this host with a hash of its boot and process namespace.
pub fn host() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().replace(':', "-");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace =
        std::fs::read_link("/proc/self/ns/pid").map(|p| p.to_string_lossy().into_owned()).unwrap_or_default();
    let hash = Digest::of(format!("{boot}{namespace}").as_bytes());
    format!("{name}-{}", &hash.short()[..8])
}

/// Returns when a process started; `None` if there is no such process or it is a zombie.
fn start_of(pid: u32) -> Option<u64> {
    let stat = ProcessStat::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?;
    (!stat.is_zombie()).then_some(stat.start)
}

fn exists(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|p| rustix::process::test_kill_process(p).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_id_reuse_is_detected() {
        let current = ProcessId::own();
        assert_eq!(current.is_alive(), Some(true));
        assert_eq!(format!("{current}:nonce").parse(), Ok(current.clone()));
        if cfg!(target_os = "linux") {
            assert_eq!(ProcessId { start: current.start + 1, ..current.clone() }.is_alive(), Some(false));
        }
        assert_eq!(ProcessId { pid: 0x3fff_fff0, ..current.clone() }.is_alive(), Some(false));
        assert_eq!(ProcessId { host: "elsewhere".into(), ..current }.is_alive(), None);
    }
}
