//! Finds and kills the processes of an attempt on this machine. Only on Linux does this include processes that left
//! their group or lost their parent.

use crate::process::ProcessId;

/// Kills all processes that an attempt started; `root` is its main process, `mark` its URL.
#[cfg(target_os = "linux")]
pub(super) async fn kill_tree(root: Option<u32>, mark: &str) {
    super::super::tree::kill_all(root, mark).await;
}

/// Kills the process group, which is all that can be found without `/proc`.
#[cfg(not(target_os = "linux"))]
pub(super) async fn kill_tree(root: Option<u32>, _: &str) {
    if let Some(pid) = root.and_then(|r| i32::try_from(r).ok()).and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
}

/// Returns the live process of an attempt that an earlier engine started.
#[cfg(target_os = "linux")]
pub(super) fn root_of(mark: &str) -> Option<ProcessId> {
    super::super::tree::root_of(mark)
}

/// Returns `None`: processes cannot be found without `/proc`.
#[cfg(not(target_os = "linux"))]
pub(super) fn root_of(_: &str) -> Option<ProcessId> {
    None
}
