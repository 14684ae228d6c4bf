//! Unavailable stores: attempts continue, and stopping a run does not wait for them.

use super::{CANCELLED, FakeBehavior, SUCCEEDED, Watcher, context, fake, key, node, options, plan};
use crate::{RunOptions, run};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::event::{AttemptOutcome, Event};
use trainyard_core::{Clock, Error, ErrorKind};
use trainyard_store::faults::{FaultyStore, StoreFault};
use trainyard_store::{Store, StoreOptions};

/// Clock that advances by a minute at every read.
#[derive(Default)]
struct LeapingClock(AtomicU64);

impl Clock for LeapingClock {
    fn unix_millis(&self) -> i64 {
        0
    }
    fn monotonic(&self) -> Duration {
        Duration::from_secs(60 * self.0.fetch_add(1, Ordering::SeqCst))
    }
}

/// Creates a store that fails on command and tolerates an outage of an hour.
async fn faulty(options: StoreOptions) -> (Arc<FaultyStore>, Store) {
    let faulty = FaultyStore::new(Arc::new(object_store::memory::InMemory::new()));
    let options = StoreOptions { outage: Duration::from_secs(3_600), ..options };
    (faulty.clone(), Store::from_object_store(faulty, "memory://faulty", options).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempts_outlive_a_store_that_refuses_its_credentials_for_a_while() {
    let (faulty, store) = faulty(StoreOptions::default()).await;
    let watcher = Arc::new(Watcher::default());
    let act = move |spec: &AttemptSpec| {
        if spec.stage.0 == "b" {
            for part in ["journal", "result.json", "artifacts/"] {
                faulty.inject(StoreFault::Denied, part, 3);
            }
        }
        FakeBehavior::Succeed
    };
    let plan = plan(vec![node("a", &[]), node("b", &["a"])]);
    let summary = run(options(), plan, context(&store, fake(act), &watcher)).await.unwrap();
    assert_eq!(summary.ending, SUCCEEDED);
    for stage in ["a", "b"] {
        let attempts = &summary.view.stage(&key(stage)).unwrap().attempts;
        assert_eq!((attempts.len(), attempts[0].outcome), (1, Some(AttemptOutcome::Succeeded)), "{stage}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_stops_once_its_store_was_away_for_too_long_and_can_be_resumed() {
    let options_of_store = StoreOptions { clock: Arc::new(LeapingClock::default()), ..StoreOptions::default() };
    let (faulty, store) = faulty(options_of_store).await;
    let watcher = Arc::new(Watcher::default());
    let breaks = faulty.clone();
    let act = move |_: &AttemptSpec| {
        breaks.inject(StoreFault::Denied, "journal", u32::MAX);
        FakeBehavior::Succeed
    };
    let plan = plan(vec![node("a", &[])]);
    let error = run(options(), plan.clone(), context(&store, fake(act), &watcher)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Lost, "{error}");
    assert!(error.message.contains("journal"), "{error}");
    faulty.clear_faults();
    let again = context(&store, fake(|_| FakeBehavior::Fail(Error::bug("computed again"))), &watcher);
    let resumed = run(RunOptions { take_over: true, ..options() }, plan, again).await.unwrap();
    assert_eq!((resumed.resumed, resumed.ending), (true, SUCCEEDED));
    assert_eq!(resumed.view.stage(&key("a")).unwrap().attempts.len(), 1, "its result was there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupt_waits_for_no_store_that_is_away() {
    let (faulty, store) = faulty(StoreOptions::default()).await;
    let watcher = Arc::new(Watcher::default());
    let wanted = options();
    let interrupt = wanted.interrupt.clone();
    let act = move |_: &AttemptSpec| {
        faulty.inject(StoreFault::LostRequest, "journal", u32::MAX);
        interrupt.raise();
        FakeBehavior::Hang
    };
    let mut context = context(&store, fake(act), &watcher);
    context.clock = Arc::new(LeapingClock::default());
    let error = run(wanted, plan(vec![node("a", &[])]), context).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled, "{error}");
    assert!(error.to_string().contains("the same command goes on"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupt_still_ends_a_run_whose_store_answers() {
    let (_, store) = faulty(StoreOptions::default()).await;
    let watcher = Arc::new(Watcher::default());
    let wanted = options();
    let interrupt = wanted.interrupt.clone();
    let act = move |_: &AttemptSpec| {
        interrupt.raise();
        FakeBehavior::Hang
    };
    let summary = run(wanted, plan(vec![node("a", &[])]), context(&store, fake(act), &watcher)).await.unwrap();
    assert_eq!(summary.ending, CANCELLED);
    assert!(watcher.events.lock().unwrap().iter().any(|r| matches!(r.event, Event::CancelRequested { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_removed_ends_the_run_and_stays_removed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("store");
    let options_of_store = StoreOptions { outage: Duration::from_secs(3_600), ..StoreOptions::default() };
    let store = Store::open(root.to_str().unwrap(), options_of_store).await.unwrap();
    let watcher = Arc::new(Watcher::default());
    let removed = root.clone();
    let act = move |_: &AttemptSpec| {
        std::fs::remove_dir_all(&removed).unwrap();
        FakeBehavior::Fail(Error::data("too late"))
    };
    let error = run(options(), plan(vec![node("a", &[])]), context(&store, fake(act), &watcher)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Lost, "{error}");
    assert!(error.message.contains("is gone"), "{error}");
    assert!(!root.exists());
}
