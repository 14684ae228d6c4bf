//! Kills a program with everything that it started, including processes that left its session or lost their parent
//! (Linux).
//!
//! A process belongs to a program if it descends from the program's process, is in its process group, or has the
//! program's mark in its environment. Environments are read only of processes whose parent is this process, one of its
//! ancestors or the first process of the machine: these adopt what lost its parent.

use rustix::process::{Pid, Signal, kill_process_group};
use std::sync::atomic::{AtomicU64, Ordering};
use trainyard_core::ProcessStat;
use trainyard_core::attempt::MARK;

/// Environment variable with the name of a program's process, unique on its machine: the name for a container that the
/// process starts and that its stop command removes.
pub const PROGRAM: &str = "TRAINYARD_PROGRAM";

/// Mark of one process of a program, in the environment of everything that it starts.
#[derive(Debug, Clone)]
pub struct ProgramMark(String);

impl ProgramMark {
    /// Makes a mark that no other program on this machine has.
    pub fn unique() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        Self(format!("trainyard-{}-{}-{number}", std::process::id(), own_start()))
    }
    /// Returns the variables of the program: its own mark, and that of the attempt that starts it, by which the program
    /// is found if the attempt is killed.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let attempt = std::env::var(MARK).ok().map(|mark| (MARK, mark));
        std::iter::once((PROGRAM, self.0.clone())).chain(attempt).collect()
    }
    /// Kills the program and everything that it started. `leader` is the id of its process, `None` once that process
    /// was waited for. Blocks until nothing is left, at most for a quarter of a second.
    pub fn kill(&self, leader: Option<u32>) {
        #[cfg(target_os = "linux")]
        linux::kill(&self.0, leader);
        // Covers systems where processes cannot be listed. It comes second: descendants are found by their parents.
        if let Some(leader) = leader {
            kill_group(leader);
        }
    }
}

/// Kills a process group by its leader's id, and so all descendants that did not leave the group. Errors are ignored:
/// the group may have ended.
pub fn kill_group(leader: u32) {
    if let Some(group) = i32::try_from(leader).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Returns the start of this process in ticks since the machine started, which distinguishes it from processes with the
/// same id in other namespaces and times; 0 if it is unknown.
fn own_start() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    ProcessStat::parse(&stat).map_or(0, |stat| stat.start)
}

#[cfg(target_os = "linux")]
mod linux {
    use super::PROGRAM;
    use rustix::process::{Pid, Signal, kill_process};
    use std::collections::BTreeSet;
    use std::time::Duration;
    use trainyard_core::ProcessStat;

    const ROUNDS: u32 = 100;
    /// Time between rounds.
    const PAUSE: Duration = Duration::from_micros(2_500);

    pub fn kill(mark: &str, leader: Option<u32>) {
        let entry = format!("{PROGRAM}={mark}");
        for _ in 0..ROUNDS {
            let found = members(&processes(), std::process::id(), leader, |pid| has_variable(pid, &entry));
            if found.is_empty() {
                return;
            }
            for pid in found.into_iter().filter_map(|pid| i32::try_from(pid).ok().and_then(Pid::from_raw)) {
                // The process may have ended already, which the next round detects.
                let _ = kill_process(pid, Signal::KILL);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Returns the processes that belong to a program, without `own` and its ancestors.
    pub fn members(
        all: &[ProcessStat],
        own: u32,
        leader: Option<u32>,
        is_marked: impl Fn(u32) -> bool,
    ) -> BTreeSet<u32> {
        let mut adopters = BTreeSet::from([own]);
        let mut next = own;
        while let Some(process) = all.iter().find(|p| p.pid == next).filter(|p| adopters.insert(p.parent)) {
            next = process.parent;
        }
        let others: Vec<&ProcessStat> = all.iter().filter(|p| !adopters.contains(&p.pid)).collect();
        adopters.insert(1);
        let is_member = |p: &ProcessStat| {
            let is_led = leader.is_some_and(|leader| p.pid == leader || p.group == leader);
            is_led || (adopters.contains(&p.parent) && is_marked(p.pid))
        };
        let mut members: BTreeSet<u32> = others.iter().filter(|p| is_member(p)).map(|p| p.pid).collect();
        loop {
            let before = members.len();
            let children: Vec<u32> = others.iter().filter(|p| members.contains(&p.parent)).map(|p| p.pid).collect();
            members.extend(children);
            if members.len() == before {
                return members;
            }
        }
    }

    /// Lists the live processes of this machine.
    fn processes() -> Vec<ProcessStat> {
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let all =
            pids.filter_map(|pid| ProcessStat::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?));
        all.filter(|process| !process.is_zombie()).collect()
    }

    /// Returns whether the environment of a process has this entry. That of another user's process cannot be read.
    fn has_variable(pid: u32, entry: &str) -> bool {
        let bytes = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        bytes.split(|byte| *byte == 0).any(|found| found == entry.as_bytes())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::linux::members;
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn marks_are_unique_names() {
        let names: Vec<String> = (0..2).map(|_| ProgramMark::unique().0).collect();
        assert_ne!(names[0], names[1]);
        assert!(names[0].chars().all(|c| c.is_ascii_alphanumeric() || c == '-'), "a container's name: {names:?}");
        assert!(own_start() > 0);
    }

    #[test]
    fn sessions_and_orphans_belong_to_the_program() {
        let process = |pid, parent, group| ProcessStat { pid, parent, group, session: 1, state: 'S', start: 1 };
        // 10 is this process, below 5 and 1. 20 is the program, 30 another one.
        let all = [
            process(1, 0, 1),
            process(5, 1, 5),
            process(10, 5, 10),
            process(20, 10, 20),
            process(21, 20, 21),
            process(22, 21, 21),
            process(23, 1, 20),
            process(24, 10, 24),
            process(25, 24, 24),
            process(26, 5, 26),
            process(30, 10, 30),
            process(31, 30, 31),
        ];
        let marked = |pid| [20, 21, 24, 26].contains(&pid);
        assert_eq!(members(&all, 10, Some(20), marked), BTreeSet::from([20, 21, 22, 23, 24, 25, 26]));
        assert_eq!(members(&all, 10, None, |pid| pid == 24), BTreeSet::from([24, 25]), "its process was waited for");
        assert_eq!(members(&all, 10, Some(20), |_| true).len(), 9, "never this process and its ancestors");
    }
}
