//! Runs attempts on pipes to this process. Their messages arrive faster than through the store, but the attempts end
//! with this process.
//!
//! An attempt sends [`AttemptMessage`] lines on stdout; any other line on stdout, and all of stderr, goes to the log.
//! The executor writes `cancel` or `timeout` to the attempt's stdin; the end of stdin signals that the engine died.

use super::Launcher;
use super::ending::{failed, unexplained};
use super::limits::{AttemptExecution, TerminationReason, run_to_end};
use super::processes::kill_tree;
use crate::executors::lines::for_each_line;
use crate::executors::{AttemptExit, AttemptReporter, AttemptTask, Control};
use crate::lookup;
use crate::slots::SlotGuard;
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

/// How long pipes may stay open after all processes are killed.
const DRAIN: Duration = Duration::from_secs(2);

/// Final messages of the attempt.
#[derive(Default)]
struct FinalMessages {
    result: bool,
    error: Option<Error>,
}

/// Starts an attempt, forwards its messages until it ends, and kills the rest of its process tree.
pub(super) async fn attempt(
    launcher: &Launcher,
    task: &AttemptTask,
    slot_guard: Option<&SlotGuard>,
    control: watch::Receiver<Control>,
) -> AttemptExit {
    let mut child = match launcher.spawn(task, slot_guard, true) {
        Ok(child) => child,
        Err(ended) => return ended,
    };
    let (root, mark) = (child.id(), task.url());
    tracing::debug!(pid = root, url = mark, "process started");
    let final_messages = Arc::new(Mutex::new(FinalMessages::default()));
    let readers = read_pipes(&mut child, &final_messages, &task.reports);
    let stdin = child.stdin.take();
    let mut piped = PipedExecution { child, stdin, root, mark: &mark };
    let (status, stopped) = run_to_end(&mut piped, task.timeout, control).await;
    kill_tree(root, &mark).await;
    for reader in readers {
        let abort = reader.abort_handle();
        if tokio::time::timeout(DRAIN, reader).await.is_err() {
            abort.abort();
        }
    }
    let final_messages = std::mem::take(&mut *final_messages.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    end_of(task, &status, stopped, final_messages).await
}

fn read_pipes(
    child: &mut Child,
    final_messages: &Arc<Mutex<FinalMessages>>,
    reports: &Arc<dyn AttemptReporter>,
) -> Vec<JoinHandle<()>> {
    let mut readers = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        let (final_messages, reports) = (final_messages.clone(), reports.clone());
        readers.push(tokio::spawn(async move {
            for_each_line(stdout, |line| match serde_json::from_str::<AttemptMessage>(line) {
                Ok(message) => {
                    let mut final_messages = final_messages.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    match &message {
                        AttemptMessage::Result {} => final_messages.result = true,
                        AttemptMessage::Error { error } => final_messages.error = Some(error.clone()),
                        _ => {}
                    }
                    drop(final_messages);
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

/// Process of an attempt, and the pipe for stop requests.
struct PipedExecution<'a> {
    child: Child,
    stdin: Option<ChildStdin>,
    root: Option<u32>,
    mark: &'a str,
}

impl AttemptExecution for PipedExecution<'_> {
    type End = std::io::Result<ExitStatus>;

    async fn ended(&mut self) -> Self::End {
        self.child.wait().await
    }
    async fn request_stop(&mut self, why: TerminationReason) {
        write_stop_line(&mut self.stdin, if why == TerminationReason::TimedOut { "timeout\n" } else { "cancel\n" })
            .await;
    }
    async fn kill(&mut self) -> Self::End {
        kill_tree(self.root, self.mark).await;
        self.child.wait().await
    }
}

/// Writes `cancel`, or `timeout` after the attempt's timeout; the attempt stops either way, and its log contains the
/// reason.
async fn write_stop_line(stdin: &mut Option<ChildStdin>, line: &str) {
    if let Some(stdin) = stdin {
        // A process that does not read any more is killed after its grace period.
        let _ = tokio::time::timeout(Duration::from_secs(1), stdin.write_all(line.as_bytes())).await;
    }
}

async fn end_of(
    task: &AttemptTask,
    status: &std::io::Result<ExitStatus>,
    stopped: Option<TerminationReason>,
    final_messages: FinalMessages,
) -> AttemptExit {
    tracing::debug!(?status, ?stopped, "process ended");
    let done = final_messages.result || status.as_ref().is_ok_and(ExitStatus::success);
    if done && stopped != Some(TerminationReason::TimedOut) {
        match lookup::result(&task.store, &task.spec).await {
            Ok(Some(result)) => return AttemptExit::succeeded(result),
            Ok(None) => {}
            Err(error) => {
                return AttemptExit::with_error(AttemptOutcome::Failed, error.at("reading the attempt's result"));
            }
        }
    }
    match stopped {
        Some(TerminationReason::TimedOut) => AttemptExit::timed_out(task.timeout),
        Some(TerminationReason::Cancelled) => AttemptExit::cancelled(),
        None => failed(final_messages.error.unwrap_or_else(|| unexplained(status))),
    }
}
