//! Finds the processes that a command left after its own process ended, mostly without a scan of all processes.
//!
//! A host is a subreaper, so orphans become its children. Every live process that a command started is therefore in the
//! command's process group, descends from a process of that group, or descends from an orphan that the host has
//! adopted. If the group is empty and the host adopted no orphan, the command left no process. Otherwise a scan of all
//! processes finds those with the mark of the attempt, and orphans without any mark are killed once no command runs. An
//! attempt with its own process (`mark`) always scans.

use super::mark;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, test_kill_process_group, waitpid};
use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use trainyard_runtime::executors::{MARK, kill_marked};

const ROUNDS: u32 = 100;
/// Time between rounds.
const PAUSE: Duration = Duration::from_millis(10);

/// Process tree of a host.
#[derive(Default)]
pub struct HostProcessTree {
    /// Running commands.
    commands: Mutex<BTreeSet<i32>>,
}

impl HostProcessTree {
    /// Makes this process a subreaper, where the system permits it.
    pub fn adopt() -> Self {
        mark::become_subreaper();
        Self::default()
    }
    /// Registers a command that this process started.
    pub fn started(&self, command: Pid) {
        self.commands().insert(command.as_raw_nonzero().get());
    }
    /// Kills the processes that the command left, and unregisters the command. The caller must have waited for the
    /// command. Returns the number of processes found by their mark.
    pub fn kill_leftovers(&self, command: Pid, mark: &str) -> usize {
        self.commands().remove(&command.as_raw_nonzero().get());
        if is_empty(command) && self.adopted().is_some_and(|adopted| adopted.is_empty()) {
            return 0;
        }
        let found = kill_marked(mark) + self.kill_unmarked();
        // The kill of the process group covers systems where processes cannot be found by their mark. It comes second,
        // since the mark of a dead process can no longer be read.
        let _ = kill_process_group(command, Signal::KILL);
        self.adopted();
        found
    }

    /// Kills adopted orphans without any mark, and returns their number. Whose they are is unknown, so they are killed
    /// only while no command runs: they are then those of commands that have ended.
    fn kill_unmarked(&self) -> usize {
        let mut killed = BTreeSet::new();
        for _ in 0..ROUNDS {
            if !self.commands().is_empty() {
                break;
            }
            let adopted = self.adopted().unwrap_or_default();
            let unmarked: Vec<Pid> = adopted.into_iter().filter(|orphan| !has_mark(*orphan)).collect();
            if unmarked.is_empty() {
                break;
            }
            for orphan in unmarked {
                // The process may have ended already, which the next round detects.
                let _ = kill_process(orphan, Signal::KILL);
                killed.insert(orphan.as_raw_nonzero().get());
            }
            std::thread::sleep(PAUSE);
        }
        killed.len()
    }

    /// Returns the live orphans that the host has adopted, `None` if the system does not list them, and reaps dead
    /// ones. Orphans become children of the main thread, while other threads start the commands.
    fn adopted(&self) -> Option<Vec<Pid>> {
        let pid = std::process::id();
        let children = std::fs::read_to_string(format!("/proc/self/task/{pid}/children")).ok()?;
        let adopted: Vec<Pid> = {
            let commands = self.commands();
            let numbers = children.split_ascii_whitespace().filter_map(|word| word.parse().ok());
            numbers.filter(|number| !commands.contains(number)).filter_map(Pid::from_raw).collect()
        };
        let is_alive = |child: &Pid| matches!(waitpid(Some(*child), WaitOptions::NOHANG), Ok(None));
        Some(adopted.into_iter().filter(is_alive).collect())
    }
    fn commands(&self) -> MutexGuard<'_, BTreeSet<i32>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether the environment of a process names an attempt. An unreadable environment is that of a process that
/// has ended, or of another user.
fn has_mark(process: Pid) -> bool {
    let environment = std::fs::read(format!("/proc/{}/environ", process.as_raw_nonzero())).unwrap_or_default();
    let name = format!("{MARK}=");
    environment.split(|byte| *byte == 0).any(|entry| entry.starts_with(name.as_bytes()))
}

/// Returns whether a process group is empty. A member that this process may not signal counts.
fn is_empty(group: Pid) -> bool {
    matches!(test_kill_process_group(group), Err(Errno::SRCH))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt as _;
    use std::process::{Command, Stdio};

    /// Runs a script like a command of a host. Returns how many processes were found after it, and how many with its
    /// mark survived.
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

    /// One test, since the whole process shares its adopted orphans.
    #[test]
    fn leftovers_are_found_and_clean_commands_cost_no_scan() {
        // A scan would find this live process by its mark.
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
        // Without a mark it is killed once no command runs.
        let tree = HostProcessTree::adopt();
        let mut running = Command::new("sleep").arg("100").spawn().unwrap();
        tree.started(Pid::from_child(&running));
        let hidden = "(env -i setsid sleep 4711 > /dev/null 2>&1 < /dev/null &) ; sleep 0.2";
        let mark = format!("memory://#{}-hidden", std::process::id());
        let mut command = Command::new("sh").args(["-c", hidden]).env(MARK, &mark).process_group(0).spawn().unwrap();
        tree.started(Pid::from_child(&command));
        command.wait().unwrap();
        tree.kill_leftovers(Pid::from_child(&command), &mark);
        assert!(!tree.adopted().unwrap().is_empty(), "another command runs, whose process it may be");
        running.kill().unwrap();
        running.wait().unwrap();
        assert!(tree.kill_leftovers(Pid::from_child(&running), &mark) >= 1);
        assert!(tree.adopted().unwrap().is_empty());
    }
}
