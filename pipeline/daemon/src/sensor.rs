//! Polls the triggers of one schedule in a task with a deadline, so that a location that does not respond delays
//! neither the clock nor other schedules.

use crate::triggers::{TriggerEvent, TriggerQuery, TriggerWatchers};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;
use trainyard_core::{Error, Result};
use trainyard_spec::schedule::Trigger;
use trainyard_store::Store;

/// Time between two polls: a request to a disk is cheap, one to a bucket is not.
const POLL_LOCAL: Duration = Duration::from_secs(2);
const POLL_REMOTE: Duration = Duration::from_secs(30);
/// Longest duration of a poll.
const DEADLINE: Duration = Duration::from_secs(120);
/// Longest time between two polls of a location that does not respond. Each poll of a disk that hangs holds a thread.
const LONGEST: Duration = Duration::from_secs(600);

/// Result of a poll, or the deadline that it missed.
type Polled = Result<Result<Vec<TriggerEvent>>, tokio::time::error::Elapsed>;

/// Sensor of one schedule. A poll that is dropped with its sensor is aborted.
pub struct TriggerSensor {
    deadline: Duration,
    trigger: Option<Trigger>,
    watchers: Arc<Mutex<TriggerWatchers>>,
    /// The current poll, if any.
    task: JoinSet<Polled>,
    /// Earliest time of the next poll, by the monotonic clock.
    next: Duration,
    /// Consecutive polls that missed the deadline.
    late: u32,
    /// Triggers that were found and not acknowledged.
    found: Vec<TriggerEvent>,
    /// Error of the last completed poll.
    error: Option<Error>,
}

impl Default for TriggerSensor {
    fn default() -> Self {
        Self::with_deadline(DEADLINE)
    }
}

impl TriggerSensor {
    fn with_deadline(deadline: Duration) -> Self {
        Self {
            deadline,
            trigger: None,
            watchers: Arc::default(),
            task: JoinSet::new(),
            next: Duration::ZERO,
            late: 0,
            found: Vec::new(),
            error: None,
        }
    }
    /// Marks a trigger as recorded in the log; it need not be returned again.
    pub fn acknowledge(&mut self, mark: &str) {
        self.found.retain(|found| found.mark != mark);
    }
    /// Returns the triggers of the completed polls, oldest first, perhaps with repetitions, and starts the next poll
    /// when it is due. `now` is the monotonic time. Never waits. Errors: that of the last completed poll.
    pub fn poll(&mut self, store: &Store, query: TriggerQuery, now: Duration) -> Result<Vec<TriggerEvent>> {
        if self.trigger.as_ref() != Some(&query.trigger) {
            *self = Self { trigger: Some(query.trigger.clone()), ..Self::with_deadline(self.deadline) };
        }
        while let Some(polled) = self.task.try_join_next() {
            let interval = interval(store, &query.trigger);
            self.take(polled.unwrap_or_else(|e| Ok(Err(Error::bug(format!("a poll of triggers ended: {e}"))))));
            self.next = now + interval.saturating_mul(1 << self.late.min(16)).min(LONGEST.max(interval));
        }
        if self.task.is_empty() && now >= self.next {
            self.start(store.clone(), query);
        }
        match &self.error {
            Some(error) => Err(error.clone()),
            None => Ok(self.found.clone()),
        }
    }
    fn start(&mut self, store: Store, query: TriggerQuery) {
        let watchers = self.watchers.clone();
        let poll = async move { watchers.lock().await.poll(&store, &query).await };
        self.task.spawn(timeout(self.deadline, poll));
    }
    fn take(&mut self, polled: Polled) {
        self.late = if polled.is_err() { self.late.saturating_add(1) } else { 0 };
        match polled {
            Ok(Ok(found)) => self.keep(found),
            Ok(Err(error)) => self.error = Some(error),
            Err(_) => self.error = Some(self.missed_deadline()),
        }
    }
    /// Keeps what a poll has found. A listing of files replaces the previous one, artifacts accumulate.
    fn keep(&mut self, found: Vec<TriggerEvent>) {
        self.error = None;
        self.found.retain(|known| known.listing.is_none());
        self.found.extend(found);
    }
    fn missed_deadline(&self) -> Error {
        let what = match &self.trigger {
            Some(Trigger::Files(place)) => format!("{place} was not listed"),
            Some(Trigger::Artifact(_)) | None => "the runs of the store were not read".to_string(),
        };
        let limit = self.deadline.as_secs();
        Error::retryable(format!("{what} within {limit} s")).help("check that the location is reachable")
    }
}

fn interval(store: &Store, trigger: &Trigger) -> Duration {
    let local = match trigger {
        Trigger::Artifact(_) => store.local_root().is_some(),
        Trigger::Files(place) => !place.contains("://") || place.starts_with("file://"),
    };
    if local { POLL_LOCAL } else { POLL_REMOTE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::sleep;
    use trainyard_core::{Clock as _, Digest, SystemClock};
    use trainyard_store::StoreOptions;

    fn query(place: &str, known: Option<Digest>) -> TriggerQuery {
        TriggerQuery { schedule: "s".into(), trigger: Trigger::Files(place.into()), since: 0, known }
    }

    async fn store() -> Store {
        Store::open("memory://", StoreOptions::default()).await.unwrap()
    }

    /// Polls until the current task has ended.
    async fn settled(sensor: &mut TriggerSensor, store: &Store, query: &TriggerQuery, now: u64) -> Vec<TriggerEvent> {
        let now = Duration::from_secs(now);
        sensor.poll(store, query.clone(), now).unwrap();
        while sensor.task.try_join_next().map(|polled| sensor.take(polled.unwrap())).is_none() {
            sleep(Duration::from_millis(1)).await;
        }
        sensor.found.clone()
    }

    #[tokio::test]
    async fn found_files_are_returned_until_they_are_acknowledged() {
        let (folder, store) = (tempfile::tempdir().unwrap(), store().await);
        std::fs::write(folder.path().join("a.csv"), "1").unwrap();
        let (mut sensor, query) = (TriggerSensor::default(), query(&folder.path().display().to_string(), None));
        assert_eq!(settled(&mut sensor, &store, &query, 0).await, [], "the file may still grow");
        let found = settled(&mut sensor, &store, &query, 10).await;
        assert_eq!(found.len(), 1);
        assert_eq!(sensor.poll(&store, query.clone(), Duration::from_secs(10)).unwrap(), found);
        sensor.acknowledge(&found[0].mark);
        assert_eq!(sensor.poll(&store, query, Duration::from_secs(10)).unwrap(), []);
    }

    /// A poll that never ends: the test holds the lock that it waits for.
    #[tokio::test]
    async fn hanging_poll_is_ended_by_its_deadline_and_delays_no_call() {
        let (folder, store) = (tempfile::tempdir().unwrap(), store().await);
        let query = query(&folder.path().display().to_string(), None);
        let mut sensor = TriggerSensor::with_deadline(Duration::from_millis(50));
        sensor.trigger = Some(query.trigger.clone());
        let watchers = sensor.watchers.clone();
        let held = watchers.lock().await;
        let clock = SystemClock::new();
        let began = clock.monotonic();
        for _ in 0..1_000 {
            assert_eq!(sensor.poll(&store, query.clone(), Duration::ZERO).unwrap(), []);
        }
        let took = clock.monotonic().saturating_sub(began);
        assert!(took < Duration::from_secs(1), "{took:?} for 1,000 calls");
        sleep(Duration::from_millis(200)).await;
        let error = sensor.poll(&store, query.clone(), Duration::from_secs(1)).unwrap_err();
        assert!(error.message.contains("was not listed within"), "{}", error.message);
        assert!(sensor.task.is_empty(), "the next poll waits longer after a missed deadline");
        assert_eq!(sensor.next, Duration::from_secs(1) + 2 * POLL_LOCAL);
        drop(held);
        sensor.poll(&store, query.clone(), Duration::from_secs(10)).unwrap_err();
        sleep(Duration::from_millis(200)).await;
        assert_eq!(sensor.poll(&store, query, Duration::from_secs(10)).unwrap(), [], "the location responds again");
    }
}
