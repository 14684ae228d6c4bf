//! Finds and kills all processes that an attempt started, including those that left its process group or lost their
//! parent (Linux).
//!
//! A process belongs to an attempt if it descends from the attempt's process, is in its process group, or has the
//! attempt's mark in its environment, which children inherit. A process that avoids all three on purpose is not found.

use super::MARK;
use crate::process::ProcessId;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::time::Duration;

const ROUNDS: u32 = 100;
/// Time between rounds.
const PAUSE: Duration = Duration::from_millis(10);

/// Kills the attempt's processes in rounds until none is left, at most for about a second. The caller still has to wait
/// for the attempt's main process. Returns how many other processes were found alive.
pub(super) async fn kill_all(root: Option<u32>, mark: &str) -> usize {
    let mut seen = BTreeSet::new();
    for _ in 0..ROUNDS {
        let killed = kill_round(root, mark);
        if killed.is_empty() {
            break;
        }
        seen.extend(killed);
        tokio::time::sleep(PAUSE).await;
    }
    seen.iter().filter(|pid| Some(**pid) != root).count()
}

/// Kills the processes that the calling attempt started: every process with this mark and its descendants, except the
/// caller and its ancestors. Blocks until no process is left, at most for about a second. Returns how many were found
/// alive.
pub fn kill_marked(mark: &str) -> usize {
    kill_others(None, mark)
}

/// Like [`kill_marked`], for the end of an attempt that was started without its mark: kills its descendants as well,
/// and its process group if it leads one.
pub fn kill_started(mark: &str) -> usize {
    kill_others(Some(std::process::id()), mark)
}

fn kill_others(root: Option<u32>, mark: &str) -> usize {
    let mut seen = BTreeSet::new();
    for _ in 0..ROUNDS {
        let killed = kill_round(root, mark);
        if killed.is_empty() {
            break;
        }
        seen.extend(killed);
        std::thread::sleep(PAUSE);
    }
    seen.len()
}

/// Returns the main process of the attempt with this mark: the oldest process that also has the mark among its
/// arguments, since descendants inherit only the environment. Returns `None` if no such process is alive.
pub(super) fn root_of(mark: &str) -> Option<ProcessId> {
    let candidates = processes().into_iter().filter(|p| !p.zombie && p.pid != std::process::id());
    let roots =
        candidates.filter(|p| is_marked(p.pid, mark) && has_argument(p.pid, mark)).map(|p| ProcessId::of(p.pid));
    roots.filter(|root| root.start > 0).min_by_key(|root| root.start)
}

/// Kills all processes of the attempt that are alive now, and returns their ids.
fn kill_round(root: Option<u32>, mark: &str) -> BTreeSet<u32> {
    let members = members(root, mark);
    for pid in &members {
        if let Some(pid) = i32::try_from(*pid).ok().and_then(Pid::from_raw) {
            // The process may have ended already, which the next round detects.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    members
}

/// Line of `/proc/<pid>/stat`.
struct ProcStat {
    pid: u32,
    parent: u32,
    group: u32,
    zombie: bool,
}

fn members(root: Option<u32>, mark: &str) -> BTreeSet<u32> {
    let all = processes();
    // The script of a batch system also has the mark if the mark is set for the entire job.
    let spared = with_ancestors(std::process::id(), &all);
    let processes: Vec<ProcStat> = all.into_iter().filter(|p| !p.zombie && !spared.contains(&p.pid)).collect();
    let belongs = |p: &&ProcStat| Some(p.group) == root || Some(p.parent) == root || is_marked(p.pid, mark);
    let mut members: BTreeSet<u32> = processes.iter().filter(belongs).map(|p| p.pid).collect();
    loop {
        let before = members.len();
        let children: Vec<u32> = processes.iter().filter(|p| members.contains(&p.parent)).map(|p| p.pid).collect();
        members.extend(children);
        if members.len() == before {
            return members;
        }
    }
}

/// Returns a process and its ancestors.
fn with_ancestors(pid: u32, processes: &[ProcStat]) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut next = Some(pid);
    while let Some(pid) = next.filter(|pid| found.insert(*pid)) {
        next = processes.iter().find(|p| p.pid == pid).map(|p| p.parent);
    }
    found
}

fn processes() -> Vec<ProcStat> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)).collect()
}

/// Parses `pid (name) state ppid pgrp …`; the name may contain spaces and parentheses.
fn parse_stat(stat: &str) -> Option<ProcStat> {
    let (pid, rest) = stat.split_once(" (")?;
    let (_, rest) = rest.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let zombie = matches!(fields.next()?, "Z" | "X");
    Some(ProcStat {
        pid: pid.parse().ok()?,
        zombie,
        parent: fields.next()?.parse().ok()?,
        group: fields.next()?.parse().ok()?,
    })
}

fn is_marked(pid: u32, mark: &str) -> bool {
    lists(pid, "environ", &format!("{MARK}={mark}"))
}

fn has_argument(pid: u32, argument: &str) -> bool {
    lists(pid, "cmdline", argument)
}

/// Returns whether a NUL-separated file of a process contains this text. An unreadable file means that the process
/// belongs to another user, so no attempt of ours started it.
fn lists(pid: u32, file: &str, text: &str) -> bool {
    let Ok(bytes) = std::fs::read(format!("/proc/{pid}/{file}")) else { return false };
    bytes.split(|b| *b == 0).any(|entry| entry == text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_names_may_contain_any_character() {
        let p = parse_stat("42 (a b) (c) S 7 40 40 0 -1").unwrap();
        assert_eq!((p.pid, p.parent, p.group, p.zombie), (42, 7, 40, false));
        assert!(parse_stat("42 (dead) Z 7 40 40").unwrap().zombie);
    }

    #[test]
    fn killer_spares_itself_and_its_ancestors() {
        let process = |pid, parent| ProcStat { pid, parent, group: 1, zombie: false };
        let processes = [process(1, 0), process(5, 1), process(7, 5), process(8, 5), process(9, 7)];
        assert_eq!(with_ancestors(7, &processes), BTreeSet::from([0, 1, 5, 7]));
        let circle = [process(3, 4), process(4, 3)];
        assert_eq!(with_ancestors(3, &circle), BTreeSet::from([3, 4]), "pids that were used again");
    }
}
