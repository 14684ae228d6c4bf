//! Attempts on the pipes of this process: the fast way, and they end with it.
//!
//! An attempt sends [`AttemptMessage`] lines on stdout; anything else on stdout, and all of stderr, goes to the log.
//! `cancel` or `timeout` is written to its stdin, and the end of stdin tells it that the engine died.

use super::Launcher;
use super::ending::{failed, unexplained};
use super::processes::kill_tree;
use crate::executors::lines::for_each_line;
use crate::executors::{Control, Ended, Reports, Task};
use crate::lookup;
use crate::slots::Held;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use trainyard_core::Error;
use trainyard_core::attempt::AttemptMessage;
use trainyard_core::event::AttemptOutcome;

/// Time between a `cancel` line and the kill of the tree.
const CANCEL_GRACE: Duration = Duration::from_secs(10);
/// The same after a timeout, when the attempt has had its time.
const TIMEOUT_GRACE: Duration = Duration::from_secs(2);
/// How long pipes may stay open after everything is killed.
const DRAIN: Duration = Duration::from_secs(2);

/// What the attempt reported about its end.
#[derive(Default)]
struct LastWords {
    result: bool,
    error: Option<Error>,
}

/// Starts an attempt and carries it to its end.
pub(super) async fn attempt(
    launcher: &Launcher,
    task: &Task,
    held: Option<&Held>,
    control: watch::Receiver<Control>,
) -> Ended {
    let mut child = match launcher.spawn(task, held, true) {
        Ok(child) => child,
        Err(ended) => return ended,
    };
    let (root, mark) = (child.id(), task.url());
    tracing::debug!(pid = root, url = mark, "process started");
    let words = Arc::new(Mutex::new(LastWords::default()));
    let readers = read_pipes(&mut child, &words, &task.reports);
    let stdin = child.stdin.take();
    let (status, stopped) = supervise(&mut child, stdin, root, &mark, task.timeout, control).await;
    kill_tree(root, &mark).await;
    for reader in readers {
        let abort = reader.abort_handle();
        if tokio::time::timeout(DRAIN, reader).await.is_err() {
            abort.abort();
        }
    }
    let words = std::mem::take(&mut *words.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    end_of(task, &status, stopped, words).await
}

fn read_pipes(child: &mut Child, words: &Arc<Mutex<LastWords>>, reports: &Arc<dyn Reports>) -> Vec<JoinHandle<()>> {
    let mut readers = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let (words, reports) = (words.clone(), reports.clone());
        readers.push(tokio::spawn(async move {
            for_each_line(stdout, |line| match serde_json::from_str::<AttemptMessage>(line) {
                Ok(message) => {
                    let mut words = words.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    match &message {
                        AttemptMessage::Result {} => words.result = true,
                        AttemptMessage::Error { error } => words.error = Some(error.clone()),
                        _ => {}
                    }
                    drop(words);
                    reports.message(message);
                }
                Err(_) => reports.raw(line),
            })
            .await;
        }));
    }
    if let Some(stderr) = child.stderr.take() {
        let reports = reports.clone();
        readers.push(tokio::spawn(async move { for_each_line(stderr, |line| reports.raw(line)).await }));
    }
    readers
}

/// Why the engine ended the attempt, if it did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopped {
    TimedOut,
    Cancelled,
}

/// Waits for the process to end, and enforces the timeout and the engine's requests.
async fn supervise(
    child: &mut Child,
    mut stdin: Option<ChildStdin>,
    root: Option<u32>,
    mark: &str,
    timeout: Option<Duration>,
    mut control: watch::Receiver<Control>,
) -> (std::io::Result<ExitStatus>, Option<Stopped>) {
    let mut stopped = None;
    let mut limit = timeout;
    let mut control_open = true;
    loop {
        let expiry = after(limit);
        tokio::pin!(expiry);
        // A request that changes nothing must not restart the limit, so it is waited for in an inner loop.
        let rises = |c: &Control| *c > Control::Run && (stopped.is_none() || *c == Control::Kill);
        let next = loop {
            tokio::select! {
                status = child.wait() => return (status, stopped),
                () = &mut expiry => break None,
                changed = control.wait_for(rises), if control_open => match changed {
                    Ok(control) => break Some(*control),
                    Err(_) => control_open = false,
                },
            }
        };
        match (next, stopped) {
            (Some(Control::Cancel), _) => {
                stopped = Some(Stopped::Cancelled);
                ask_to_stop(&mut stdin, "cancel\n").await;
                limit = Some(CANCEL_GRACE);
            }
            (None, None) => {
                stopped = Some(Stopped::TimedOut);
                ask_to_stop(&mut stdin, "timeout\n").await;
                limit = Some(TIMEOUT_GRACE);
            }
            (Some(_), _) | (None, Some(_)) => {
                stopped.get_or_insert(Stopped::Cancelled);
                kill_tree(root, mark).await;
                return (child.wait().await, stopped);
            }
        }
    }
}

/// Returns after the limit; never without one.
async fn after(limit: Option<Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}

/// `cancel`, or `timeout` where the attempt's time is up; the attempt stops either way and its log tells which.
async fn ask_to_stop(stdin: &mut Option<ChildStdin>, line: &str) {
    if let Some(stdin) = stdin {
        // If the process does not read any more, it is killed after its grace.
        let _ = tokio::time::timeout(Duration::from_secs(1), stdin.write_all(line.as_bytes())).await;
    }
}

async fn end_of(
    task: &Task,
    status: &std::io::Result<ExitStatus>,
    stopped: Option<Stopped>,
    words: LastWords,
) -> Ended {
    tracing::debug!(?status, ?stopped, "process ended");
    let done = words.result || status.as_ref().is_ok_and(ExitStatus::success);
    if done && stopped != Some(Stopped::TimedOut) {
        match lookup::result(&task.store, &task.spec).await {
            Ok(Some(result)) => return Ended::succeeded(result),
            Ok(None) => {}
            Err(error) => return Ended::with(AttemptOutcome::Failed, error.at("reading the attempt's result")),
        }
    }
    match stopped {
        Some(Stopped::TimedOut) => Ended::timed_out(task.timeout),
        Some(Stopped::Cancelled) => Ended::cancelled(),
        None => failed(words.error.unwrap_or_else(|| unexplained(status))),
    }
}
