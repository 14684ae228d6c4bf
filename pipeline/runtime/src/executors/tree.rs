//! Finds and kills all processes that an attempt started, including those that left its process group or lost their
//! parent (Linux).
//!
//! A process belongs to an attempt if it descends from the attempt's process, is in its process group, or has the
//! attempt's mark in its environment, which children inherit. An attempt with its own process is a subreaper, so that a
//! process that lost its parent still descends from it; such a process is found in another session and without the
//! mark, too.

use super::MARK;
use crate::process::ProcessId;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::collections::BTreeSet;
use std::time::Duration;
use trainyard_core::ProcessStat;

const ROUNDS: u32 = 100;
/// Time between rounds.
const PAUSE: Duration = Duration::from_millis(10);

/// Processes that belong to an attempt, besides their descendants.
#[derive(Debug, Clone, Copy)]
struct Sought<'a> {
    /// Mark in their environment.
    mark: &'a str,
    /// Main process of the attempt: its children and its process group belong to the attempt.
    root: Option<u32>,
    /// Whether what the calling process adopted belongs to the attempt.
    adopted: bool,
}

/// Kills the attempt's processes in rounds until none is left, at most for about a second. The caller still has to wait
/// for the attempt's main process. Returns how many other processes were found alive.
pub(super) async fn kill_all(root: Option<u32>, mark: &str) -> usize {
    let mut seen = BTreeSet::new();
    for _ in 0..ROUNDS {
        let killed = kill_round(Sought { mark, root, adopted: false });
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
    kill_others(Sought { mark, root: None, adopted: false })
}

/// Like [`kill_marked`], for what a command left in an attempt with its own process: kills the processes that the
/// attempt adopted as well, but no other child.
pub fn kill_leftovers(mark: &str) -> usize {
    kill_others(Sought { mark, root: None, adopted: true })
}

/// Like [`kill_marked`], for the end of an attempt with its own process: kills its descendants as well, adopted ones
/// included, and its process group if it leads one.
pub fn kill_started(mark: &str) -> usize {
    kill_others(Sought { mark, root: Some(std::process::id()), adopted: true })
}

fn kill_others(sought: Sought<'_>) -> usize {
    let mut seen = BTreeSet::new();
    for _ in 0..ROUNDS {
        let killed = kill_round(sought);
        if killed.is_empty() {
            break;
        }
        seen.extend(killed);
        std::thread::sleep(PAUSE);
    }
    seen.len()
}

/// Reaps the children of this process that have ended and that it did not start itself: those that it adopted as a
/// subreaper. Its own children are left to those who wait for them.
pub fn reap_adopted() {
    let all = processes();
    let Some(own) = all.iter().find(|p| p.pid == std::process::id()) else { return };
    let adopted = all.iter().filter(|p| p.is_zombie() && is_adopted(p, own));
    for pid in adopted.filter_map(|p| i32::try_from(p.pid).ok().and_then(Pid::from_raw)) {
        // No other thread waits for a process that this one did not start.
        let _ = waitpid(Some(pid), WaitOptions::NOHANG);
    }
}

/// Returns whether a child was started by another process, by its session and group: a child that was started here is
/// in the session of its parent, and in the parent's group or one that it leads.
fn is_adopted(child: &ProcessStat, own: &ProcessStat) -> bool {
    let is_foreign = child.session != own.session || (child.group != child.pid && child.group != own.group);
    child.parent == own.pid && is_foreign
}

/// Returns the main process of the attempt with this mark: the oldest process that also has the mark among its
/// arguments, since descendants inherit only the environment. Returns `None` if no such process is alive.
pub(super) fn root_of(mark: &str) -> Option<ProcessId> {
    let candidates = processes().into_iter().filter(|p| !p.is_zombie() && p.pid != std::process::id());
    let roots =
        candidates.filter(|p| is_marked(p.pid, mark) && has_argument(p.pid, mark)).map(|p| ProcessId::of(p.pid));
    roots.filter(|root| root.start > 0).min_by_key(|root| root.start)
}

/// Kills all processes of the attempt that are alive now, and returns their ids.
fn kill_round(sought: Sought<'_>) -> BTreeSet<u32> {
    let members = members(sought);
    for pid in &members {
        if let Some(pid) = i32::try_from(*pid).ok().and_then(Pid::from_raw) {
            // The process may have ended already, which the next round detects.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    members
}

fn members(Sought { mark, root, adopted }: Sought<'_>) -> BTreeSet<u32> {
    let all = processes();
    let own = std::process::id();
    let spared = with_ancestors(own, &all);
    let adopting = all.iter().find(|p| p.pid == own).filter(|_| adopted);
    let is_member = |p: &&ProcessStat| {
        Some(p.group) == root
            || Some(p.parent) == root
            || adopting.is_some_and(|own| is_adopted(p, own))
            || is_marked(p.pid, mark)
    };
    let processes: Vec<&ProcessStat> = all.iter().filter(|p| !p.is_zombie() && !spared.contains(&p.pid)).collect();
    let mut members: BTreeSet<u32> = processes.iter().copied().filter(is_member).map(|p| p.pid).collect();
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
fn with_ancestors(pid: u32, processes: &[ProcessStat]) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut next = Some(pid);
    while let Some(pid) = next.filter(|pid| found.insert(*pid)) {
        next = processes.iter().find(|p| p.pid == pid).map(|p| p.parent);
    }
    found
}

fn processes() -> Vec<ProcessStat> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| ProcessStat::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)).collect()
}

/// Returns whether the environment of a process has this mark, alone or with the id of the process that made it.
fn is_marked(pid: u32, mark: &str) -> bool {
    let entry = format!("{MARK}={mark}");
    lists(pid, "environ", |found| is_entry(found, entry.as_bytes()))
}

fn is_entry(found: &[u8], marked: &[u8]) -> bool {
    found.strip_prefix(marked).is_some_and(|rest| rest.is_empty() || rest.starts_with(b" "))
}

fn has_argument(pid: u32, argument: &str) -> bool {
    lists(pid, "cmdline", |found| found == argument.as_bytes())
}

/// Returns whether a NUL-separated file of a process has such an entry. An unreadable file means that the process
/// belongs to another user, so no attempt of ours started it.
fn lists(pid: u32, file: &str, is_sought: impl Fn(&[u8]) -> bool) -> bool {
    let Ok(bytes) = std::fs::read(format!("/proc/{pid}/{file}")) else { return false };
    bytes.split(|b| *b == 0).any(is_sought)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_of_a_process_belongs_to_its_attempt_only() {
        for (found, is_marked) in [
            ("TRAINYARD_ATTEMPT=file:///s#a/1", true),
            ("TRAINYARD_ATTEMPT=file:///s#a/1 node1-0a:17:4242", true),
            ("TRAINYARD_ATTEMPT=file:///s#a/10", false),
            ("TRAINYARD_ATTEMPT=file:///s#a", false),
            ("OTHER_TRAINYARD_ATTEMPT=file:///s#a/1", false),
        ] {
            assert_eq!(is_entry(found.as_bytes(), b"TRAINYARD_ATTEMPT=file:///s#a/1"), is_marked, "{found}");
        }
    }

    #[test]
    fn only_children_that_others_started_count_as_adopted() {
        let process = |pid, parent, group, session| ProcessStat { pid, parent, group, session, state: 'Z', start: 1 };
        let own = process(10, 1, 10, 5);
        for (child, adopted) in [
            (process(20, 10, 10, 5), false),
            (process(20, 10, 20, 5), false),
            (process(20, 10, 20, 20), true),
            (process(20, 10, 18, 5), true),
            (process(20, 10, 18, 18), true),
            (process(20, 11, 18, 18), false),
        ] {
            assert_eq!(is_adopted(&child, &own), adopted, "{}/{}/{}", child.parent, child.group, child.session);
        }
    }

    #[test]
    fn killer_spares_itself_and_its_ancestors() {
        let process = |pid, parent| ProcessStat { pid, parent, group: 1, session: 1, state: 'S', start: 1 };
        let processes = [process(1, 0), process(5, 1), process(7, 5), process(8, 5), process(9, 7)];
        assert_eq!(with_ancestors(7, &processes), BTreeSet::from([0, 1, 5, 7]));
        let circle = [process(3, 4), process(4, 3)];
        assert_eq!(with_ancestors(3, &circle), BTreeSet::from([3, 4]), "pids that were used again");
    }
}
