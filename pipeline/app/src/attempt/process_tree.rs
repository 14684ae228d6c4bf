//! Finds the remaining processes of a command whose own process has ended, without a scan of all processes of the
//! machine.
//!
//! A host is a subreaper: orphans become its children. So every live process that a command started is in the command's
//! process group, descends from such a process, or descends from one that the host has adopted. If the group is empty
//! and no orphan was adopted, nothing is left. Otherwise the mark decides which attempt owns a process, at the price of
//! a scan. An attempt with a process to itself always scans.

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, test_kill_process_group, waitpid};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use trainyard_runtime::executors::kill_marked;

/// Process tree of a host.
#[derive(Default)]
pub struct HostProcessTree {
    /// Running commands.
    commands: Mutex<BTreeSet<i32>>,
}

impl HostProcessTree {
    /// Makes this process a subreaper.
    pub fn adopt() -> Self {
        #[cfg(target_os = "linux")]
        if let Err(error) = rustix::process::set_child_subreaper(Some(rustix::process::getpid())) {
            tracing::debug!(%error, "this process cannot become a subreaper");
        }
        Self::default()
    }
    /// Records a command that this process started.
    pub fn started(&self, command: Pid) {
        self.commands().insert(command.as_raw_nonzero().get());
    }
    /// Kills the processes that the command left, once its own process was waited for. Returns how many were found.
    pub fn kill_leftovers(&self, command: Pid, mark: &str) -> usize {
        self.commands().remove(&command.as_raw_nonzero().get());
        if is_empty(command) && !self.has_adopted() {
            return 0;
        }
        let found = kill_marked(mark);
        // The process group is the fallback where processes cannot be found by their mark. It is killed second, since
        // the mark of a dead process cannot be counted.
        let _ = kill_process_group(command, Signal::KILL);
        self.has_adopted();
        found
    }

    /// Whether a live orphan was adopted; reaps the dead ones. Orphans become children of the main thread, commands are
    /// started by others.
    fn has_adopted(&self) -> bool {
        let pid = std::process::id();
        let Ok(children) = std::fs::read_to_string(format!("/proc/self/task/{pid}/children")) else { return true };
        let adopted: Vec<Pid> = {
            let commands = self.commands();
            let numbers = children.split_ascii_whitespace().filter_map(|word| word.parse().ok());
            numbers.filter(|number| !commands.contains(number)).filter_map(Pid::from_raw).collect()
        };
        adopted.into_iter().filter(|child| matches!(waitpid(Some(*child), WaitOptions::NOHANG), Ok(None))).count() > 0
    }
    fn commands(&self) -> MutexGuard<'_, BTreeSet<i32>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a process group is empty. A member that may not be signaled counts as one.
fn is_empty(group: Pid) -> bool {
    matches!(test_kill_process_group(group), Err(Errno::SRCH))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};
    use trainyard_runtime::executors::MARK;

    /// Runs a script as a host runs a command; returns how many processes it left, and how many with its mark survive.
    fn leftovers_of(script: &str, mark: &str) -> (usize, usize) {
        let tree = HostProcessTree::adopt();
        let mut command = Command::new("sh");
        command.args(["-c", script]).env(MARK, mark).process_group(0).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let pid = Pid::from_child(&child);
        tree.started(pid);
        child.wait().unwrap();
        (tree.kill_leftovers(pid, mark), kill_marked(mark))
    }

    /// One test, since adopted orphans are shared by the whole process.
    #[test]
    fn leftovers_are_found_and_clean_commands_cost_no_scan() {
        // With the mark of a live process, a scan would find that process.
        let mark = format!("memory://#{}-quiet", std::process::id());
        let mut other = Command::new("sleep").arg("100").env(MARK, &mark).spawn().unwrap();
        let (found, surviving) = leftovers_of("true", &mark);
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!((found, surviving), (0, 1), "no scan");
        for (name, script) in [
            ("group", "sleep 100 &"),
            ("session", "setsid sleep 100 & sleep 0.2"),
            ("orphan", "(setsid sh -c 'sleep 100 & wait' &) ; sleep 0.2"),
        ] {
            let mark = format!("memory://#{}-{name}", std::process::id());
            let (found, surviving) = leftovers_of(script, &mark);
            assert!(found >= 1, "{name}");
            assert_eq!(surviving, 0, "{name}");
        }
    }
}
