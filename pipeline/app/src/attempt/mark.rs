//! Marks the processes that an attempt starts, and adopts those that lose their parent.
//!
//! The mark is a variable that children inherit. An attempt makes its own mark and executes its program again with it,
//! so that the mark is in the environment of the attempt and of all processes below it, and of none above it: a batch
//! system that is handed a mark passes it to its own processes as well (`srun`, Ray's watchdog). The attempt is also a
//! subreaper: a process that loses its parent becomes a child of the attempt, even in another session and without the
//! mark.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;
use trainyard_runtime::executors::{MARK, reap_adopted};
use trainyard_runtime::resume::ProcessId;

/// Interval at which adopted processes that have ended are reaped.
const REAP_INTERVAL: Duration = Duration::from_secs(30);

/// Returns the mark of this process: the URL of its attempt and the id of the process, which distinguishes the ranks
/// of an attempt that share a machine.
fn own_mark(url: &str) -> String {
    format!("{url} {}", ProcessId::own())
}

/// Returns the mark of this process, which is in its environment. The first call executes the program again; the
/// process keeps its id. If that fails, the attempt passes the mark to its command only.
pub fn take(url: &str) -> String {
    let mark = own_mark(url);
    if std::env::var_os(MARK).is_none_or(|value| value != *mark) {
        let error = execute_again(&mark);
        tracing::info!(%error, "the attempt cannot mark its own process");
    }
    mark
}

/// Replaces this process by the same command with the mark. Returns only if that fails.
fn execute_again(mark: &str) -> io::Error {
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    // The second path names the running program even if its file was replaced.
    for program in [std::env::current_exe().ok(), Some("/proc/self/exe".into())].into_iter().flatten() {
        let mut arguments = std::env::args_os();
        let mut command = Command::new(program);
        if let Some(name) = arguments.next() {
            command.arg0(name);
        }
        failure = command.args(arguments).env(MARK, mark).exec();
    }
    failure
}

/// Makes this process the parent of all descendants that lose theirs, where the system permits it, and reaps them once
/// they have ended.
pub fn adopt_orphans() {
    if !become_subreaper() {
        return;
    }
    let reaping = std::thread::Builder::new().name("reaper".into()).spawn(|| {
        loop {
            std::thread::sleep(REAP_INTERVAL);
            reap_adopted();
        }
    });
    if let Err(error) = reaping {
        tracing::info!(%error, "orphans that end stay zombies until the attempt ends");
    }
}

/// Makes this process a subreaper. Returns false where the system does not permit it.
#[cfg(target_os = "linux")]
pub fn become_subreaper() -> bool {
    let made = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    made.inspect_err(|error| tracing::debug!(%error, "this process cannot become a subreaper")).is_ok()
}

/// Returns false: only Linux has subreapers.
#[cfg(not(target_os = "linux"))]
pub fn become_subreaper() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_begins_with_the_url_and_names_the_process() {
        let mark = own_mark("file:///s#a/1");
        let (url, process) = mark.split_once(' ').unwrap();
        assert_eq!((url, process.parse::<ProcessId>()), ("file:///s#a/1", Ok(ProcessId::own())));
        assert_eq!(mark, own_mark("file:///s#a/1"), "the process recognizes its own mark");
    }
}
