//! Watchers: one task per run with open pages. It reads the store and sends snapshots to all subscribers.

use super::message::message;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use trainyard_core::{Clock, ErrorKind, RunId};
use trainyard_store::Store;
use trainyard_views::followed::FollowedRuns;
use trainyard_views::live::{LiveSnapshot, RunFollower};

/// Interval between two turns of a watcher.
const EVERY: Duration = Duration::from_millis(250);
/// Interval after an error of the store.
const AFTER_ERROR: Duration = Duration::from_secs(2);
/// Minimum milliseconds between two reads of a section by one page.
const MIN_REFRESH: usize = 2_000;
/// Milliseconds that each page of a run adds, so that all pages together read at most ten times a second.
const REFRESH_PER_PAGE: usize = 100;
/// Maximum number of subscribers of all runs.
pub const MAX_SUBSCRIBERS: usize = 512;

/// Watchers of a process.
pub struct Watchers {
    followed: Arc<FollowedRuns>,
    /// Senders by run. A watcher removes its sender, under this lock, when no subscriber is left.
    open: Arc<Mutex<HashMap<RunId, Arc<watch::Sender<Sent>>>>>,
    places: Arc<Semaphore>,
}

/// Snapshot that is sent to all subscribers.
#[derive(Debug, Clone, Default)]
pub struct Sent {
    /// State of the run.
    pub snapshot: Arc<LiveSnapshot>,
    /// Message for subscribers that have the previous snapshot.
    pub json: Arc<str>,
    /// Milliseconds between two reads of a section by one page, longer with many pages.
    pub refresh: usize,
    /// Whether no further snapshot follows.
    pub is_last: bool,
}

/// Place of one page at a watcher.
pub struct Subscriber {
    /// Snapshots of the run.
    pub snapshots: watch::Receiver<Sent>,
    _place: OwnedSemaphorePermit,
}

impl Watchers {
    /// Returns no watchers.
    pub fn new(followed: Arc<FollowedRuns>) -> Self {
        Self { followed, open: Arc::default(), places: Arc::new(Semaphore::new(MAX_SUBSCRIBERS)) }
    }

    /// Subscribes to a run, and starts its watcher if it is the first subscriber. Returns `None` if all places are
    /// taken.
    pub fn subscribe(&self, store: &Store, clock: &Arc<dyn Clock>, run: &RunId) -> Option<Subscriber> {
        let place = self.places.clone().try_acquire_owned().ok()?;
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = open.get(run) {
            let mut snapshots = sender.subscribe();
            let has_state = snapshots.borrow().snapshot.version > 0;
            if has_state {
                snapshots.mark_changed();
            }
            return Some(Subscriber { snapshots, _place: place });
        }
        let sender = Arc::new(watch::Sender::new(Sent::default()));
        open.insert(run.clone(), sender.clone());
        let snapshots = sender.subscribe();
        let watcher = Watcher {
            follower: RunFollower::new(self.followed.clone(), run.clone()),
            store: store.clone(),
            clock: clock.clone(),
            sender,
            open: self.open.clone(),
            run: run.clone(),
        };
        tokio::spawn(watcher.run());
        Some(Subscriber { snapshots, _place: place })
    }

    /// Returns the number of watchers.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.open.lock().unwrap().len()
    }
}

struct Watcher {
    follower: RunFollower,
    store: Store,
    clock: Arc<dyn Clock>,
    sender: Arc<watch::Sender<Sent>>,
    open: Arc<Mutex<HashMap<RunId, Arc<watch::Sender<Sent>>>>>,
    run: RunId,
}

impl Watcher {
    /// Sends snapshots until no subscriber is left, or the run is over.
    async fn run(mut self) {
        loop {
            let pause = self.turn().await;
            if self.sender.borrow().is_last {
                self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.run);
                return;
            }
            tokio::select! {
                () = self.sender.closed() => {}
                () = tokio::time::sleep(pause) => {}
            }
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            // Subscribers come under the same lock, so none is lost between the check and the removal.
            if self.sender.receiver_count() == 0 {
                open.remove(&self.run);
                return;
            }
        }
    }

    /// Reads what is new, and sends it; returns the time until the next turn.
    async fn turn(&mut self) -> Duration {
        let last = self.sender.borrow().snapshot.clone();
        match self.follower.turn(&self.store, self.clock.as_ref()).await {
            Ok(Some(run)) => self.send(&last, last.next(run)),
            // The store is back.
            Ok(None) if last.problem.is_some() => self.send(&last, last.next(last.run.clone())),
            Ok(None) => {}
            Err(error) => {
                let problem = format!("the run cannot be followed: {error}");
                if last.problem.as_ref() != Some(&problem) {
                    let mut broken = last.with_problem(problem);
                    // A damaged journal stays damaged.
                    broken.run.is_over |= error.kind != ErrorKind::Retryable;
                    self.send(&last, broken);
                }
                return AFTER_ERROR;
            }
        }
        EVERY
    }

    fn send(&self, last: &LiveSnapshot, snapshot: LiveSnapshot) {
        let refresh = MIN_REFRESH.max(self.sender.receiver_count() * REFRESH_PER_PAGE);
        let json = message(&snapshot, last.version, refresh).into();
        let is_last = snapshot.run.is_over;
        self.sender.send_replace(Sent { snapshot: Arc::new(snapshot), json, refresh, is_last });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{RUN, TestRun};

    fn subscribe(watchers: &Watchers, test: &TestRun, run: &str) -> Option<Subscriber> {
        watchers.subscribe(&test.app.store, &test.app.clock, &RunId(run.into()))
    }

    async fn next(subscriber: &mut Subscriber) -> Sent {
        let waiting = tokio::time::timeout(Duration::from_secs(20), subscriber.snapshots.changed());
        waiting.await.expect("a snapshot within 20 s").unwrap();
        subscriber.snapshots.borrow_and_update().clone()
    }

    async fn until_closed(watchers: &Watchers) {
        for _ in 0..200 {
            if watchers.count() == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("the watcher did not end");
    }

    #[tokio::test]
    async fn event_in_the_store_reaches_all_subscribers_of_one_watcher() {
        let mut test = TestRun::create(&[("sft", &[])]).await;
        let watchers = Watchers::new(Arc::default());
        let mut first = subscribe(&watchers, &test, RUN).unwrap();
        assert_eq!(next(&mut first).await.snapshot.run.stages[0].status, "pending");
        let mut second = subscribe(&watchers, &test, RUN).unwrap();
        assert_eq!(watchers.count(), 1, "the subscribers share a watcher");
        assert_eq!(next(&mut second).await.snapshot.version, 1, "the present state comes at once");
        test.start("sft", 1, "gpu").await;
        for subscriber in [&mut first, &mut second] {
            let sent = next(subscriber).await;
            assert_eq!((sent.snapshot.version, sent.snapshot.run.stages[0].status), (2, "running"));
            assert!(sent.json.contains(r#""stage":"sft","status":"running""#), "{}", sent.json);
        }
        drop(first);
        assert_eq!(watchers.count(), 1);
        drop(second);
        until_closed(&watchers).await;
        assert_eq!(watchers.places.available_permits(), MAX_SUBSCRIBERS);
        let mut again = subscribe(&watchers, &test, RUN).unwrap();
        assert_eq!(next(&mut again).await.snapshot.version, 1, "a new watcher");
    }

    #[tokio::test]
    async fn watcher_ends_with_its_run() {
        let mut test = TestRun::create(&[("sft", &[])]).await;
        let watchers = Watchers::new(Arc::default());
        let mut subscriber = subscribe(&watchers, &test, RUN).unwrap();
        assert!(!next(&mut subscriber).await.is_last);
        test.finish().await;
        let last = next(&mut subscriber).await;
        assert_eq!((last.is_last, last.snapshot.run.status), (true, "succeeded"));
        until_closed(&watchers).await;
        let mut subscriber = subscribe(&watchers, &test, "20200101-000000-0000000").unwrap();
        let last = next(&mut subscriber).await;
        assert!(last.is_last && last.json.contains("there is no run"), "{}", last.json);
    }

    #[tokio::test]
    async fn places_are_limited() {
        let test = TestRun::create(&[("sft", &[])]).await;
        let watchers = Watchers::new(Arc::default());
        let all: Vec<_> = (0..MAX_SUBSCRIBERS).map(|_| subscribe(&watchers, &test, RUN).unwrap()).collect();
        assert!(subscribe(&watchers, &test, RUN).is_none());
        drop(all);
        assert!(subscribe(&watchers, &test, RUN).is_some());
    }
}
