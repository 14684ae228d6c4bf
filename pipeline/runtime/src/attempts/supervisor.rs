//! Holds the state of one attempt that its submission, recovery and supervision share.

use super::PoolClient;
use super::wait_reason::WaitReasonTracker;
use crate::attempt_reader::AttemptReader;
use crate::executors::{AttemptState, AttemptTask, Control};
use crate::notifier::AttemptNotifier;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

pub(crate) struct AttemptSupervisor {
    pub(super) client: PoolClient,
    pub(super) task: AttemptTask,
    pub(super) notifier: Arc<AttemptNotifier>,
    pub(super) control: watch::Receiver<Control>,
    pub(super) follow: AttemptReader,
    pub(super) waiting: WaitReasonTracker,
}

/// Receiver of the attempt's states.
pub(super) type StateReceiver = watch::Receiver<Option<AttemptState>>;

impl AttemptSupervisor {
    pub fn new(
        client: PoolClient,
        task: AttemptTask,
        notifier: Arc<AttemptNotifier>,
        control: watch::Receiver<Control>,
    ) -> Self {
        let follow = AttemptReader::new(&notifier.context, &task.spec);
        Self { client, task, notifier, control, follow, waiting: WaitReasonTracker::default() }
    }

    /// Returns how long the attempt may wait for its machine.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.task.spec.wait_millis.map(Duration::from_millis)
    }
    pub(super) fn now(&self) -> Duration {
        self.notifier.context.clock.monotonic()
    }
    pub(super) fn report_wait(&mut self) {
        let now = self.now();
        if let Some(why) = self.waiting.take_report(now) {
            self.task.reports.waits(why.as_deref());
        }
        if let Some(why) = self.waiting.take_reminder(now) {
            self.notifier.remind(&why);
        }
    }
    /// Returns how long an executor may be unreachable, which is the outage that the store tolerates.
    pub(super) fn outage(&self) -> Duration {
        self.notifier.context.store.options().outage
    }
    /// Sleeps, but returns true early if the engine requests the attempt to stop.
    pub(super) async fn sleep(&mut self, time: Duration) -> bool {
        tokio::select! {
            biased;
            () = tokio::time::sleep(time) => false,
            () = wait_for_control(&mut self.control, Control::Cancel) => true,
        }
    }
}

/// Returns the default reason for waiting, for executors that report none.
pub(super) fn waits_for_a_machine() -> String {
    "waits for a machine".into()
}

/// Waits until the engine requests at least `level`; never returns if the sender is dropped.
pub(crate) async fn wait_for_control(control: &mut watch::Receiver<Control>, level: Control) {
    if control.wait_for(|requested| *requested >= level).await.is_err() {
        std::future::pending().await
    }
}

/// Waits until the engine requests more than `current`; never returns if the sender is dropped.
pub(super) async fn wait_beyond_control(control: &mut watch::Receiver<Control>, current: Control) {
    if control.wait_for(|requested| *requested > current).await.is_err() {
        std::future::pending().await
    }
}
