//! Tests runs of different plans that reach one stage at the same time.

use super::cluster::{Cluster, PausedClock, seconds};
use super::{FakeBehavior, SUCCEEDED, Watcher, context, fake, key, node, options, plan};
use crate::executors::Executors;
use crate::{RunContext, RunOptions, RunSummary, run};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use trainyard_core::event::{Event, Selection};
use trainyard_core::{Chance, Clock, Error, ErrorKind, Result};
use trainyard_engine::fold::StageStatus;
use trainyard_spec::plan::{Plan, PlanNode};
use trainyard_store::{Store, StoreOptions};

struct Bench {
    store: Store,
    clock: Arc<PausedClock>,
    watcher: Arc<Watcher>,
    started: AtomicUsize,
}

impl Bench {
    async fn new() -> Self {
        let clock = Arc::new(PausedClock::new());
        let options = StoreOptions { clock: clock.clone(), ..StoreOptions::default() };
        Self {
            store: Store::open("memory://", options).await.unwrap(),
            clock,
            watcher: Arc::default(),
            started: AtomicUsize::new(0),
        }
    }
    fn start(&self, executors: Executors, plan: Plan) -> JoinHandle<Result<RunSummary>> {
        self.start_with(executors, plan, options())
    }
    /// Starts a run like a separate process, with separate randomness.
    fn start_with(&self, executors: Executors, plan: Plan, options: RunOptions) -> JoinHandle<Result<RunSummary>> {
        let chance = Chance::new(self.started.fetch_add(1, Ordering::SeqCst) as u64);
        let context = context(&self.store, executors, &self.watcher);
        tokio::spawn(run(options, plan, RunContext { clock: self.clock.clone(), chance, ..context }))
    }
    /// Returns the reported reasons why stages waited.
    fn wait_reasons(&self) -> Vec<String> {
        let why = |event: &Event| match event {
            Event::Queued { why, .. } => Some(why.clone()),
            _ => None,
        };
        self.watcher.events.lock().unwrap().iter().filter_map(|record| why(&record.event)).collect()
    }
}

/// Builds a distinct plan whose stage `a` is the same in all plans.
fn with(other: &str) -> Plan {
    plan(vec![node("a", &[]), node(other, &["a"])])
}

/// Counts launches of `a`; `act` defines the action of each by its number.
fn counted(launches: &Arc<AtomicUsize>, act: impl Fn(usize) -> FakeBehavior + Send + Sync + 'static) -> Executors {
    let launches = launches.clone();
    fake(
        move |spec| {
            if spec.stage == key("a") { act(launches.fetch_add(1, Ordering::SeqCst)) } else { FakeBehavior::Succeed }
        },
    )
}

/// Counts launches of `a`; each succeeds when the gate opens.
fn gated(launches: &Arc<AtomicUsize>, open: &watch::Receiver<bool>) -> Executors {
    let open = open.clone();
    counted(launches, move |_| FakeBehavior::WaitFor(open.clone()))
}

async fn end(run: JoinHandle<Result<RunSummary>>) -> RunSummary {
    let ended = tokio::time::timeout(Duration::from_secs(300), run).await;
    ended.expect("it waits for ever").unwrap().unwrap()
}

#[tokio::test(start_paused = true)]
async fn shared_stage_is_computed_by_one_run() {
    let (bench, launches) = (Bench::new().await, Arc::default());
    let (gate, open) = watch::channel(false);
    let executors = || gated(&launches, &open);
    let first = bench.start(executors(), with("b"));
    let second = bench.start(executors(), with("c"));
    seconds(100).await;
    assert_eq!(launches.load(Ordering::SeqCst), 1);
    gate.send(true).unwrap();
    let (first, second) = (end(first).await, end(second).await);
    assert_eq!((&first.ending, &second.ending), (&SUCCEEDED, &SUCCEEDED));
    assert_eq!(launches.load(Ordering::SeqCst), 1);
    let mut statuses = [&first, &second].map(|run| run.view.stage(&key("a")).unwrap().status);
    statuses.sort();
    assert_eq!(statuses, [StageStatus::Done, StageStatus::Hit]);
    let reasons = bench.wait_reasons();
    assert!(
        matches!(&reasons[..], [only] if only.contains("is computing this stage (attempt 1 of `a`)")),
        "reported once: {reasons:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn rerun_computes_a_shared_stage_again() {
    let (bench, launches) = (Bench::new().await, Arc::default());
    let (gate, open) = watch::channel(false);
    let executors = || gated(&launches, &open);
    let first = bench.start(executors(), with("b"));
    let selection = Selection { rerun: vec!["a".into()], ..Selection::default() };
    let second = bench.start_with(executors(), with("c"), RunOptions { selection, ..options() });
    seconds(100).await;
    assert_eq!(launches.load(Ordering::SeqCst), 2);
    gate.send(true).unwrap();
    assert_eq!((end(first).await.ending, end(second).await.ending), (SUCCEEDED, SUCCEEDED));
}

#[tokio::test(start_paused = true)]
async fn dead_run_loses_its_claim() {
    let (bench, launches) = (Bench::new().await, Arc::default());
    let executors = counted(&launches, |number| if number == 0 { FakeBehavior::Hang } else { FakeBehavior::Succeed });
    let first = bench.start(executors.clone(), with("b"));
    seconds(60).await;
    let second = bench.start(executors, with("c"));
    seconds(100).await;
    assert_eq!(launches.load(Ordering::SeqCst), 1, "the first lives");
    first.abort();
    let _ = first.await;
    assert_eq!(end(second).await.ending, SUCCEEDED);
    assert_eq!(launches.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn failed_attempt_releases_its_claim() {
    let (bench, launches) = (Bench::new().await, Arc::default());
    let (gate, open) = watch::channel(false);
    let failing = fake(move |spec| match spec.stage.0.as_str() {
        "a" => FakeBehavior::FailWhen(open.clone(), Error::data("row 7 is damaged")),
        _ => FakeBehavior::Hang,
    });
    // The run has another stage, so it is not over.
    let first = bench.start(failing, plan(vec![node("a", &[]), node("z", &[])]));
    seconds(20).await;
    let second = bench.start(counted(&launches, |_| FakeBehavior::Succeed), with("c"));
    seconds(20).await;
    assert_eq!(launches.load(Ordering::SeqCst), 0);
    gate.send(true).unwrap();
    assert_eq!(end(second).await.ending, SUCCEEDED);
    assert!(!first.is_finished(), "the failed run goes on");
    first.abort();
}

#[tokio::test(start_paused = true)]
async fn full_pool_does_not_block_another_run() {
    let bench = Bench::new().await;
    let jobs = Arc::new(Mutex::new(0));
    let cluster = Cluster::new(move |job| {
        let jobs = jobs.clone();
        async move {
            let number = {
                let mut jobs = jobs.lock().unwrap();
                *jobs += 1;
                *jobs
            };
            if number == 1 {
                job.waits("Resources");
                seconds(1_000).await;
            }
            job.runs_for(20).await;
            job.succeeds().await;
        }
    });
    let first = bench.start(cluster.executors(), plan(vec![node("a", &[])]));
    seconds(10).await;
    let second = end(bench.start(cluster.executors(), with("c"))).await;
    assert_eq!(second.ending, SUCCEEDED);
    // The job that waited so long computes the stage once more; its result is that of the other.
    let first = tokio::time::timeout(Duration::from_secs(2_000), first).await.unwrap().unwrap().unwrap();
    assert_eq!(first.ending, SUCCEEDED);
}

/// Clock that can be set.
struct SettableClock(PausedClock, AtomicI64);

impl Clock for SettableClock {
    fn unix_millis(&self) -> i64 {
        self.0.unix_millis() + self.1.load(Ordering::SeqCst)
    }
    fn monotonic(&self) -> Duration {
        self.0.monotonic()
    }
}

#[tokio::test(start_paused = true)]
async fn clock_set_back_does_not_delay_a_retry() {
    let bench = Bench::new().await;
    let clock = Arc::new(SettableClock(PausedClock::new(), AtomicI64::new(0)));
    let launches = Arc::default();
    let away = Error { kind: ErrorKind::Retryable, ..Error::retryable("503") };
    let act = move |number| if number == 0 { FakeBehavior::Fail(away.clone()) } else { FakeBehavior::Succeed };
    let context = context(&bench.store, counted(&launches, act), &bench.watcher);
    let mut stage: PlanNode = node("a", &[]);
    stage.retry.attempts = 2;
    stage.retry.backoff.first = Duration::from_secs(20);
    stage.retry.backoff.most = Duration::from_secs(20);
    let run = tokio::spawn(run(options(), plan(vec![stage]), RunContext { clock: clock.clone(), ..context }));
    seconds(5).await;
    clock.1.store(-86_400_000, Ordering::SeqCst);
    let ended = tokio::time::timeout(Duration::from_secs(60), run).await.expect("it waits for a day");
    assert_eq!(ended.unwrap().unwrap().ending, SUCCEEDED);
}
