//! Runs attempts that outlive their engine, as processes without pipes that report only through the store.

use super::Launcher;
use super::ending::{failed, unexplained};
use super::processes::kill_tree;
use crate::executors::{AttemptExit, AttemptTask, Control};
use crate::process::ProcessId;
use crate::slots::SlotGuard;
use std::process::ExitStatus;
use std::time::Duration;
use tokio::sync::watch;
use trainyard_core::Error;
use trainyard_core::event::AttemptOutcome;

/// Poll interval for a process that is not a child of this one.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Starts an attempt, waits for its end, and kills the rest of its process tree. If this future is dropped, the attempt
/// continues.
pub(super) async fn attempt(
    launcher: &Launcher,
    task: &AttemptTask,
    slot_guard: Option<&SlotGuard>,
    mut control: watch::Receiver<Control>,
) -> AttemptExit {
    let mut child = match launcher.spawn(task, slot_guard, false) {
        Ok(child) => child,
        Err(ended) => return ended,
    };
    let (root, url) = (child.id(), task.url());
    tracing::debug!(pid = root, url, "process started");
    // If this future is dropped, the attempt continues in its slots.
    let leave = |leave| slot_guard.iter().for_each(|slot_guard| slot_guard.set_inherited(leave));
    leave(true);
    let status = tokio::select! {
        status = child.wait() => Some(status),
        () = stops(&mut control) => None,
    };
    kill_tree(root, &url).await;
    leave(false);
    match status {
        Some(status) => end_of(&status),
        None => {
            // The process is dead; this only reaps the child.
            let _ = child.wait().await;
            AttemptExit::cancelled()
        }
    }
}

/// Waits for the end of an attempt that an earlier engine started, then kills the rest of its process tree. The exit
/// status of such a process is unknown.
pub(super) async fn watch(root: ProcessId, url: String, mut control: watch::Receiver<Control>) -> AttemptExit {
    let ended = async {
        while root.is_alive() != Some(false) {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let stopped = tokio::select! {
        () = ended => false,
        () = stops(&mut control) => true,
    };
    kill_tree(Some(root.pid), &url).await;
    if stopped {
        return AttemptExit::cancelled();
    }
    let error = Error::lost("the attempt's process ended with an unknown exit status").help("see its log");
    AttemptExit::with_error(AttemptOutcome::Lost, error)
}

/// Waits until the attempt must stop; never returns if the sender is dropped. The engine has requested the stop in the
/// store before, so the only remaining means is a kill.
async fn stops(control: &mut watch::Receiver<Control>) {
    if control.wait_for(|requested| *requested > Control::Run).await.is_err() {
        std::future::pending().await
    }
}

fn end_of(status: &std::io::Result<ExitStatus>) -> AttemptExit {
    match status {
        Ok(status) if status.success() => AttemptExit::succeeded_unread(),
        status => failed(unexplained(status)),
    }
}
