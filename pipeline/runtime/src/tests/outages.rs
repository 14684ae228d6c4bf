//! Tests unavailable stores: attempts continue, and stopping a run does not wait for the store.

use super::{CANCELLED, FakeBehavior, SUCCEEDED, Watcher, context, fake, key, node, options, plan};
use crate::{RunOptions, run};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use trainyard_core::attempt::AttemptSpec;
use trainyard_core::event::{AttemptOutcome, Event};
use trainyard_core::{Clock, Error, ErrorKind};
use trainyard_store::{Store, StoreOptions};
use trainyard_testkit::faults::{FaultyStore, StoreFault};

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
async fn attempts_survive_temporarily_refused_credentials() {
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
async fn run_stops_after_a_long_outage_and_can_be_resumed() {
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
    faulty.heal();
    let again = context(&store, fake(|_| FakeBehavior::Fail(Error::bug("computed again"))), &watcher);
    let resumed = run(RunOptions { take_over: true, ..options() }, plan, again).await.unwrap();
    assert_eq!((resumed.resumed, resumed.ending), (true, SUCCEEDED));
    assert_eq!(resumed.view.stage(&key("a")).unwrap().attempts.len(), 1, "its result was there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupt_does_not_wait_for_an_unavailable_store() {
    let (faulty, store) = faulty(StoreOptions::default()).await;
    let watcher = Arc::new(Watcher::default());
    let options = options();
    let interrupt = options.interrupt.clone();
    let act = move |_: &AttemptSpec| {
        faulty.inject(StoreFault::LostRequest, "journal", u32::MAX);
        interrupt.raise();
        FakeBehavior::Hang
    };
    let mut context = context(&store, fake(act), &watcher);
    context.clock = Arc::new(LeapingClock::default());
    let error = run(options, plan(vec![node("a", &[])]), context).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled, "{error}");
    assert!(error.to_string().contains("run the same command again"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupt_ends_a_run_with_an_available_store() {
    let (_, store) = faulty(StoreOptions::default()).await;
    let watcher = Arc::new(Watcher::default());
    let options = options();
    let interrupt = options.interrupt.clone();
    let act = move |_: &AttemptSpec| {
        interrupt.raise();
        FakeBehavior::Hang
    };
    let summary = run(options, plan(vec![node("a", &[])]), context(&store, fake(act), &watcher)).await.unwrap();
    assert_eq!(summary.ending, CANCELLED);
    assert!(watcher.events.lock().unwrap().iter().any(|r| matches!(r.event, Event::CancelRequested { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn removed_store_ends_the_run() {
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
