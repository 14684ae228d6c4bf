//! State of one attempt in a carrier, shared by its phases.

use super::Carrier;
use super::waiting::Waiting;
use crate::executors::{Control, State, Task};
use crate::follow::Follow;
use crate::news::News;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

pub(crate) struct Carried {
    pub(super) carrier: Carrier,
    pub(super) task: Task,
    pub(super) news: Arc<News>,
    pub(super) control: watch::Receiver<Control>,
    pub(super) follow: Follow,
    pub(super) waiting: Waiting,
}

/// Receiver of the attempt's states.
pub(super) type Heard = watch::Receiver<Option<State>>;

impl Carried {
    pub fn new(carrier: Carrier, task: Task, news: Arc<News>, control: watch::Receiver<Control>) -> Self {
        let follow = Follow::new(&news.context, &task.spec);
        Self { carrier, task, news, control, follow, waiting: Waiting::default() }
    }

    /// Returns how long the attempt may wait for its machine.
    pub(super) fn wait(&self) -> Option<Duration> {
        self.task.spec.wait_millis.map(Duration::from_millis)
    }
    pub(super) fn now(&self) -> Duration {
        self.news.context.clock.monotonic()
    }
    pub(super) fn tell_waiting(&mut self) {
        let now = self.now();
        if let Some(why) = self.waiting.news(now) {
            self.task.reports.waits(why.as_deref());
        }
    }
    /// Returns how long an executor may be unreachable: as long as the store.
    pub(super) fn outage(&self) -> Duration {
        self.news.context.store.options().outage
    }
    /// Sleeps; returns whether the attempt must stop.
    pub(super) async fn rest(&mut self, time: Duration) -> bool {
        tokio::select! {
            biased;
            () = tokio::time::sleep(time) => false,
            () = reaches(&mut self.control, Control::Cancel) => true,
        }
    }
}

/// Returns the default reason for waiting, for executors that report none.
pub(super) fn waits_for_a_machine() -> String {
    "waits for a machine".into()
}

/// Returns when the engine requests at least this control; never returns if the sender is gone.
pub(crate) async fn reaches(control: &mut watch::Receiver<Control>, least: Control) {
    if control.wait_for(|wanted| *wanted >= least).await.is_err() {
        std::future::pending().await
    }
}

/// Returns when the engine requests more than this control; never returns if the sender is gone.
pub(super) async fn rises(control: &mut watch::Receiver<Control>, asked: Control) {
    if control.wait_for(|wanted| *wanted > asked).await.is_err() {
        std::future::pending().await
    }
}
