//! Passes the events of a run to its trackers, each on a separate thread.

use super::registry::Trackers;
use super::tracker::{Point, RunStart, Tracker, TrackerContext, TrackerEvent};
use serde_json::Value;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use trainyard_core::attempt::AttemptMessage;
use trainyard_core::error::Context as _;
use trainyard_core::event::EventRecord;
use trainyard_core::{AttemptNumber, Clock, Error, Result, StageKey};
use trainyard_runtime::{Observer, OpenedRun};

/// Capacity of a tracker's queue; further events are dropped.
const QUEUE_CAPACITY: usize = 1 << 16;
/// Maximum events of one call of a tracker.
const MAX_BATCH: usize = 1_000;
/// Time in which events are collected for one call.
const BATCH_WINDOW: Duration = Duration::from_millis(500);
/// Consecutive failures after which a tracker is disabled.
const MAX_FAILURES: u32 = 5;
/// Total time in which the trackers may take the remaining events after the run has ended.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);

/// Observer that forwards events to trackers in addition to another observer.
pub struct TrackingObserver {
    inner: Arc<dyn Observer>,
    clock: Arc<dyn Clock>,
    handles: Mutex<Vec<TrackerHandle>>,
}

/// Sending end of a tracker's queue, with its counters.
struct TrackerHandle {
    kind: String,
    sender: SyncSender<Arc<TrackerEvent>>,
    done: Receiver<()>,
    dropped: Arc<AtomicU64>,
}

/// Starts the trackers of a site, and returns an observer that forwards events to them and to `inner`. Errors: invalid
/// (the options of a tracker, with its index in the list), retryable (a thread cannot be started).
pub fn follow(
    family: &Trackers,
    trackers: &[Value],
    context: &TrackerContext,
    clock: Arc<dyn Clock>,
    inner: Arc<dyn Observer>,
) -> Result<Arc<TrackingObserver>> {
    let mut handles = Vec::new();
    for (place, options) in trackers.iter().enumerate() {
        let tracker = family.build(options, context).at(format!("tracking[{place}]"))?;
        let kind = options.get("kind").or(Some(options)).and_then(Value::as_str).unwrap_or("tracker").to_string();
        handles.push(TrackerHandle::start(kind, tracker, clock.clone(), inner.clone())?);
    }
    Ok(Arc::new(TrackingObserver { inner, clock, handles: Mutex::new(handles) }))
}

impl TrackerHandle {
    fn start(kind: String, tracker: Box<dyn Tracker>, clock: Arc<dyn Clock>, notes: Arc<dyn Observer>) -> Result<Self> {
        let (sender, receiver) = sync_channel(QUEUE_CAPACITY);
        let (done_sender, done) = channel();
        let name = kind.clone();
        let work = move || {
            serve(tracker, &receiver, &*clock, |error, last| {
                let more = if last { "; the tracker is disabled" } else { "" };
                notes.note(&format!("the tracker `{name}` lost events: {error}{more}"));
            });
            // The receiver is dropped if the final wait timed out.
            done_sender.send(()).ok();
        };
        let thread = std::thread::Builder::new().name(format!("tracker-{kind}")).spawn(work);
        thread.map_err(|e| Error::retryable(format!("cannot start a thread for the tracker `{kind}`: {e}")))?;
        Ok(Self { kind, sender, done, dropped: Arc::default() })
    }
}

/// Passes events to a tracker until its queue is closed, or it fails [`MAX_FAILURES`] times in a row. `on_failure` is
/// called at the first and the last of these failures; its flag marks the last.
fn serve(
    mut tracker: Box<dyn Tracker>,
    events: &Receiver<Arc<TrackerEvent>>,
    clock: &dyn Clock,
    on_failure: impl Fn(&Error, bool),
) {
    let mut failed = 0;
    while let Ok(first) = events.recv() {
        let batch = collect_batch(first, events, clock);
        let references: Vec<&TrackerEvent> = batch.iter().map(|event| &**event).collect();
        match tracker.take(&references) {
            Ok(()) => failed = 0,
            Err(error) => {
                failed += 1;
                let last = failed == MAX_FAILURES;
                if failed == 1 || last {
                    on_failure(&error, last);
                }
                if last {
                    return;
                }
            }
        }
    }
}

fn collect_batch(
    first: Arc<TrackerEvent>,
    events: &Receiver<Arc<TrackerEvent>>,
    clock: &dyn Clock,
) -> Vec<Arc<TrackerEvent>> {
    let until = clock.monotonic() + BATCH_WINDOW;
    let mut batch = vec![first];
    while batch.len() < MAX_BATCH {
        match events.recv_timeout(until.saturating_sub(clock.monotonic())) {
            Ok(next) => batch.push(next),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    batch
}

impl TrackingObserver {
    fn publish(&self, event: impl FnOnce() -> TrackerEvent) {
        let handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        if handles.is_empty() {
            return;
        }
        let event = Arc::new(event());
        for handle in handles.iter() {
            if let Err(TrySendError::Full(_)) = handle.sender.try_send(event.clone()) {
                handle.dropped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    /// Ends the trackers after the run has ended. It waits for a limited time until they have taken the remaining
    /// events, and notes the events that were lost.
    pub fn end(&self) {
        let handles = std::mem::take(&mut *self.handles.lock().unwrap_or_else(PoisonError::into_inner));
        let mut remaining = SHUTDOWN_TIMEOUT;
        for TrackerHandle { kind, sender, done, dropped } in handles {
            drop(sender);
            let start = self.clock.monotonic();
            if done.recv_timeout(remaining) == Err(RecvTimeoutError::Timeout) {
                self.inner.note(&format!(
                    "the tracker `{kind}` did not take the last events within {} s",
                    SHUTDOWN_TIMEOUT.as_secs()
                ));
            }
            remaining = remaining.saturating_sub(self.clock.monotonic() - start);
            let dropped = dropped.load(Ordering::Relaxed);
            if dropped > 0 {
                self.inner.note(&format!("the tracker `{kind}` was too slow: {dropped} events were dropped"));
            }
        }
    }
}

impl Observer for TrackingObserver {
    fn opened(&self, run: &OpenedRun<'_>) {
        self.inner.opened(run);
        self.publish(|| {
            TrackerEvent::Opened(RunStart {
                run: run.run.clone(),
                workflow: run.workflow.to_string(),
                params: run.params.clone(),
                resumed: run.resumed,
                at: self.clock.unix_millis(),
            })
        });
    }
    fn event(&self, record: &EventRecord) {
        self.inner.event(record);
        self.publish(|| TrackerEvent::Event(record.clone()));
    }
    fn message(&self, stage: &StageKey, attempt: AttemptNumber, message: &AttemptMessage) {
        self.inner.message(stage, attempt, message);
        if let AttemptMessage::Metric { name, step, value } = message {
            let (stage, name, at) = (stage.clone(), name.clone(), self.clock.unix_millis());
            self.publish(|| TrackerEvent::Point(Point { stage, attempt, name, step: *step, value: *value, at }));
        }
    }
    fn waits(&self, stage: &StageKey, why: &str) {
        self.inner.waits(stage, why);
    }
    fn note(&self, text: &str) {
        self.inner.note(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracking::testing::{Notes, opened, point};
    use trainyard_core::SystemClock;

    /// Tracker that fails a given number of times.
    struct FailingTracker {
        taken: Arc<Mutex<Vec<usize>>>,
        failures: u32,
    }

    impl Tracker for FailingTracker {
        fn take(&mut self, events: &[&TrackerEvent]) -> Result<()> {
            if self.failures > 0 {
                self.failures -= 1;
                return Err(Error::retryable("away"));
            }
            self.taken.lock().unwrap().push(events.len());
            Ok(())
        }
    }

    fn tracking(failures: u32) -> (Arc<TrackingObserver>, Arc<Mutex<Vec<usize>>>, Arc<Notes>) {
        let (taken, notes) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Notes::default()));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let tracker = Box::new(FailingTracker { taken: taken.clone(), failures });
        let thread = TrackerHandle::start("fragile".into(), tracker, clock.clone(), notes.clone()).unwrap();
        (Arc::new(TrackingObserver { inner: notes.clone(), clock, handles: Mutex::new(vec![thread]) }), taken, notes)
    }

    #[test]
    fn events_are_delivered_in_batches() {
        let (tracking, taken, notes) = tracking(0);
        tracking.publish(|| TrackerEvent::Opened(opened("r")));
        for step in 0..2_500 {
            tracking.publish(|| TrackerEvent::Point(point("rl", "loss", step, 0.5)));
        }
        tracking.end();
        let taken = taken.lock().unwrap();
        assert_eq!(taken.iter().sum::<usize>(), 2_501);
        assert!(taken.len() < 20 && taken.iter().all(|count| *count <= MAX_BATCH), "{taken:?}");
        assert!(notes.all().is_empty());
    }

    #[test]
    fn failed_tracker_is_noted_once_and_continues() {
        let (tracking, taken, notes) = tracking(1);
        for _ in 0..2 {
            tracking.publish(|| TrackerEvent::Opened(opened("r")));
            std::thread::sleep(2 * BATCH_WINDOW);
        }
        tracking.end();
        assert_eq!(*taken.lock().unwrap(), [1]);
        assert_eq!(notes.all().len(), 1, "{:?}", notes.all());
        assert!(notes.all()[0].contains("`fragile`") && notes.all()[0].contains("away"));
    }
}
