//! Attempts on a host: the commands of `run:` stages.

use super::Launcher;
use super::ending::failed;
use super::host::{End, Hosted, Hosts, Order};
use super::limits::{Stopped, UnderWay, keep};
use super::processes::kill_tree;
use crate::executors::{Control, Ended, Task};
use crate::lookup;
use crate::slots::Held;
use std::time::Duration;
use tokio::sync::watch;
use trainyard_core::Error;
use trainyard_core::event::AttemptOutcome;

/// How long the host may take to report the end of an attempt whose processes were killed. It may be hashing a file.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Passes an attempt to the host and carries it to its end.
pub(super) async fn attempt(
    hosts: &Hosts,
    launcher: &Launcher,
    task: &Task,
    held: Option<Held>,
    control: watch::Receiver<Control>,
) -> Ended {
    let hosted = match hosts.begin(launcher, task, held.as_ref()) {
        Ok(hosted) => hosted,
        Err(ended) => return ended,
    };
    let mut attempt = OnHost { hosted, mark: task.url() };
    let (end, stopped) = keep(&mut attempt, task.timeout, control).await;
    if end.is_none() {
        // Hold the slots until the host is done with the attempt.
        tokio::spawn(async move {
            let _ = attempt.hosted.ended().await;
            drop(held);
        });
    }
    end_of(task, end, stopped).await
}

struct OnHost {
    hosted: Hosted,
    mark: String,
}

impl UnderWay for OnHost {
    /// `None` if the host does not report the end in time.
    type End = Option<End>;

    async fn ended(&mut self) -> Option<End> {
        let end = self.hosted.ended().await;
        if matches!(end, End::Died(_)) {
            kill_tree(None, &self.mark).await;
        }
        Some(end)
    }
    async fn ask(&mut self, why: Stopped) {
        self.hosted.order(&Order::Stop { id: self.hosted.id, timed_out: why == Stopped::TimedOut });
    }
    async fn kill(&mut self) -> Option<End> {
        self.hosted.order(&Order::Kill { id: self.hosted.id });
        kill_tree(None, &self.mark).await;
        tokio::time::timeout(LAST_WORDS, self.ended()).await.ok().flatten()
    }
}

async fn end_of(task: &Task, end: Option<End>, stopped: Option<Stopped>) -> Ended {
    let timed_out = stopped == Some(Stopped::TimedOut);
    let error = match end {
        Some(End::Said { result: Some(result), .. }) if !timed_out => return Ended::succeeded(*result),
        Some(End::Said { stored: true, .. }) if !timed_out => match lookup::result(&task.store, &task.spec).await {
            Ok(Some(result)) => return Ended::succeeded(result),
            Ok(None) => None,
            Err(error) => return Ended::with(AttemptOutcome::Failed, error.at("reading the attempt's result")),
        },
        Some(End::Said { error, .. }) => error,
        Some(End::Died(error)) => Some(error),
        None => None,
    };
    match stopped {
        Some(Stopped::TimedOut) => Ended::timed_out(task.timeout),
        Some(Stopped::Cancelled) => Ended::cancelled(),
        None => failed(error.unwrap_or_else(|| Error::lost("the attempt ended without a result").help("see its log"))),
    }
}
