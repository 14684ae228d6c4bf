//! Runs the commands of `run:` stages as attempts on a host process.

use super::Launcher;
use super::ending::failed;
use super::host::{HostPool, HostRequest, HostedAttempt, HostedEnd};
use super::limits::{AttemptExecution, TerminationReason, run_to_end};
use super::processes::kill_tree;
use crate::executors::{AttemptExit, AttemptTask, Control};
use crate::lookup;
use crate::slots::SlotGuard;
use std::time::Duration;
use tokio::sync::watch;
use trainyard_core::Error;
use trainyard_core::event::AttemptOutcome;

/// How long the host may take to report the end of an attempt whose processes were killed. It may be hashing a file.
const REPORT_GRACE: Duration = Duration::from_secs(2);

/// Passes an attempt to the host and waits for its end. Holds the attempt's slots until the host has reported its end.
pub(super) async fn attempt(
    hosts: &HostPool,
    launcher: &Launcher,
    task: &AttemptTask,
    slot_guard: Option<SlotGuard>,
    control: watch::Receiver<Control>,
) -> AttemptExit {
    let hosted = match hosts.begin(launcher, task, slot_guard.as_ref()) {
        Ok(hosted) => hosted,
        Err(ended) => return ended,
    };
    let mut attempt = HostedExecution { hosted, mark: task.url() };
    let (end, stopped) = run_to_end(&mut attempt, task.timeout, control).await;
    if end.is_none() {
        // Hold the slots until the host is done with the attempt.
        tokio::spawn(async move {
            let _ = attempt.hosted.ended().await;
            drop(slot_guard);
        });
    }
    end_of(task, end, stopped).await
}

struct HostedExecution {
    hosted: HostedAttempt,
    mark: String,
}

impl AttemptExecution for HostedExecution {
    /// `None` if the host does not report the end in time.
    type End = Option<HostedEnd>;

    async fn ended(&mut self) -> Option<HostedEnd> {
        let end = self.hosted.ended().await;
        if matches!(end, HostedEnd::Died(_)) {
            kill_tree(None, &self.mark).await;
        }
        Some(end)
    }
    async fn request_stop(&mut self, why: TerminationReason) {
        self.hosted
            .send_request(&HostRequest::Stop { id: self.hosted.id, timed_out: why == TerminationReason::TimedOut });
    }
    async fn kill(&mut self) -> Option<HostedEnd> {
        self.hosted.send_request(&HostRequest::Kill { id: self.hosted.id });
        kill_tree(None, &self.mark).await;
        tokio::time::timeout(REPORT_GRACE, self.ended()).await.ok().flatten()
    }
}

async fn end_of(task: &AttemptTask, end: Option<HostedEnd>, stopped: Option<TerminationReason>) -> AttemptExit {
    let timed_out = stopped == Some(TerminationReason::TimedOut);
    let error = match end {
        Some(HostedEnd::Reported { result: Some(result), .. }) if !timed_out => return AttemptExit::succeeded(*result),
        Some(HostedEnd::Reported { stored: true, .. }) if !timed_out => {
            match lookup::result(&task.store, &task.spec).await {
                Ok(Some(result)) => return AttemptExit::succeeded(result),
                Ok(None) => None,
                Err(error) => {
                    return AttemptExit::with_error(AttemptOutcome::Failed, error.at("reading the attempt's result"));
                }
            }
        }
        Some(HostedEnd::Reported { error, .. }) => error,
        Some(HostedEnd::Died(error)) => Some(error),
        None => None,
    };
    match stopped {
        Some(TerminationReason::TimedOut) => AttemptExit::timed_out(task.timeout),
        Some(TerminationReason::Cancelled) => AttemptExit::cancelled(),
        None => failed(error.unwrap_or_else(|| Error::lost("the attempt ended without a result").help("see its log"))),
    }
}
