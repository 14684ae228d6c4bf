//! Tests attempts without a pipe, which a cluster only starts and the engine follows in the store.

use super::cluster::{Cluster, Job, PausedClock, seconds};
use super::{CANCELLED, FAILED, SUCCEEDED, Watcher, context, key, node, options, plan};
use crate::executors::{AttemptExit, Control, Handle};
use crate::{RunContext, RunEnding, RunOptions, RunSummary, run};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use trainyard_core::attempt::{AttemptMessage, LogRecord};
use trainyard_core::event::{AttemptOutcome, Event, EventRecord};
use trainyard_core::{Digest, Error, ErrorKind, Result};
use trainyard_engine::MachinePool;
use trainyard_spec::files::digest_path;
use trainyard_spec::plan::{PlanNode, SourceRef};
use trainyard_spec::template::Template;
use trainyard_store::{AttemptStream, Store, StoreOptions};
use trainyard_testkit::faults::{FaultyStore, StoreFault};

mod next_engine;

pub struct Bench {
    store: Store,
    faulty: Arc<FaultyStore>,
    watcher: Arc<Watcher>,
    clock: Arc<PausedClock>,
}

impl Bench {
    /// Creates a store that tolerates an outage of ten minutes, as do its executors.
    pub async fn new() -> Self {
        let faulty = FaultyStore::new(Arc::new(object_store::memory::InMemory::new()));
        let clock = Arc::new(PausedClock::new());
        let outage = Duration::from_secs(600);
        let options = StoreOptions { outage, clock: clock.clone(), ..StoreOptions::default() };
        let store = Store::from_object_store(faulty.clone(), "memory://faulty", options).await.unwrap();
        Self { store, faulty, watcher: Arc::default(), clock }
    }
    fn context(&self, cluster: &Arc<Cluster>) -> RunContext {
        let pools = vec![MachinePool::of_this_machine(16, 1 << 30, Vec::new())];
        let context = context(&self.store, cluster.executors(), &self.watcher);
        RunContext { pools, clock: self.clock.clone(), ..context }
    }
    pub async fn run(&self, cluster: &Arc<Cluster>, nodes: Vec<PlanNode>) -> RunSummary {
        run(options(), plan(nodes), self.context(cluster)).await.unwrap()
    }
    /// Starts an engine that can be killed.
    fn engine(&self, cluster: &Arc<Cluster>, options: RunOptions) -> JoinHandle<Result<RunSummary>> {
        tokio::spawn(run(options, plan(vec![node("a", &[])]), self.context(cluster)))
    }
    /// Runs the next engine of the same run.
    async fn next(&self, cluster: &Arc<Cluster>) -> RunSummary {
        self.engine(cluster, RunOptions { take_over: true, ..options() }).await.unwrap().unwrap()
    }
    fn events(&self) -> Vec<EventRecord> {
        self.watcher.events.lock().unwrap().clone()
    }
    fn notes(&self) -> String {
        self.watcher.notes.lock().unwrap().join("\n")
    }
    /// Returns the waits in the journal: each reason, and `works` for the end of a wait.
    fn waits(&self) -> Vec<String> {
        let one = |record: &EventRecord| match &record.event {
            Event::AttemptWaiting { why, .. } => Some(why.clone()),
            Event::AttemptWorking { .. } => Some("works".to_string()),
            _ => None,
        };
        self.events().iter().filter_map(one).collect()
    }
    fn handles(&self) -> Vec<(u32, String)> {
        let one = |record: &EventRecord| match &record.event {
            Event::AttemptSubmitted { attempt, handle, .. } => Some((*attempt, handle.clone())),
            _ => None,
        };
        self.events().iter().filter_map(one).collect()
    }
}

async fn wait_for(condition: impl Fn() -> bool) {
    while !condition() {
        seconds(1).await;
    }
}

fn end_of(summary: &RunSummary, stage: &str) -> (AttemptOutcome, Option<Error>) {
    let attempt = summary.view.stage(&key(stage)).unwrap().attempts.last().unwrap().clone();
    (attempt.outcome.unwrap(), attempt.error)
}

/// Returns how the only attempt of stage `a` ends.
async fn ends<F: Future<Output = ()> + Send + 'static>(
    script: impl Fn(Job) -> F + Send + Sync + 'static,
) -> (AttemptOutcome, Option<Error>) {
    let (bench, cluster) = (Bench::new().await, Cluster::new(script));
    end_of(&bench.run(&cluster, vec![node("a", &[])]).await, "a")
}

#[tokio::test(start_paused = true)]
async fn concurrent_attempts_are_submitted_together() {
    let bench = Bench::new().await;
    let cluster = Cluster::succeeding_after(20);
    let names: Vec<String> = (0..12).map(|n| format!("n{n:02}")).collect();
    let mut nodes: Vec<PlanNode> = names.iter().map(|name| node(name, &[])).collect();
    nodes.push(node("z", &["n00"]));
    let summary = bench.run(&cluster, nodes).await;
    assert_eq!(summary.ending, SUCCEEDED);
    let mut submissions = cluster.inner().submissions.clone();
    submissions[0].sort();
    assert_eq!(submissions, [names, vec!["z".to_string()]]);
    assert!(cluster.inner().cancels.is_empty());
}

#[tokio::test(start_paused = true)]
async fn final_objects_override_the_executor_report() {
    let lost = || AttemptExit::with_error(AttemptOutcome::Lost, Error::lost("the node failed"));
    let (outcome, _) = ends(move |job| async move {
        job.starts();
        job.leaves_its_result().await;
        job.ends(lost());
    })
    .await;
    assert_eq!(outcome, AttemptOutcome::Succeeded);
    let (outcome, error) = ends(move |job| async move {
        job.starts();
        job.leaves_a_failure(AttemptOutcome::Failed, Error::data("row 7 is damaged")).await;
        job.ends(lost());
    })
    .await;
    assert_eq!((outcome, error), (AttemptOutcome::Failed, Some(Error::data("row 7 is damaged"))));
    let (outcome, error) = ends(move |job| async move {
        job.starts();
        job.ends(lost());
    })
    .await;
    assert_eq!((outcome, error), (AttemptOutcome::Lost, Some(Error::lost("the node failed"))));
    let (outcome, error) = ends(|job| async move { job.ends(AttemptExit::succeeded_unread()) }).await;
    assert_eq!(outcome, AttemptOutcome::Lost);
    assert!(error.unwrap().message.contains("ended without a result"));
    let (outcome, _) = ends(|job| async move {
        job.ends(AttemptExit::succeeded_unread());
        seconds(8).await;
        job.leaves_its_result().await;
    })
    .await;
    assert_eq!(outcome, AttemptOutcome::Succeeded, "a file system showed it late");
}

#[tokio::test(start_paused = true)]
async fn attempt_with_a_result_ends_without_executor_report() {
    let bench = Bench::new().await;
    let cluster = Cluster::new(|job| async move {
        job.starts();
        job.leaves_its_result().await;
    });
    assert_eq!(bench.run(&cluster, vec![node("a", &[])]).await.ending, SUCCEEDED);
    assert_eq!(cluster.inner().cancels, [(Handle("job-1".into()), Control::Kill)]);
}

#[tokio::test(start_paused = true)]
async fn heartbeats_report_progress_and_checkpoints() {
    let bench = Bench::new().await;
    // Four attempts fail, each after a later checkpoint than all before it.
    let cluster = Cluster::new(|job| async move {
        job.starts();
        let attempt = u64::from(job.task.spec.attempt);
        job.beats(1, attempt, Some(10 * attempt)).await;
        if attempt == 1 {
            seconds(30).await;
            job.beats(2, 7, Some(15)).await;
            // The last heartbeat is more recent than the last read.
        }
        if attempt < 5 {
            return job.ends(AttemptExit::with_error(AttemptOutcome::Lost, Error::lost("preempted")));
        }
        job.succeeds().await;
    });
    let mut stage = node("a", &[]);
    stage.retry.attempts = 2;
    let summary = bench.run(&cluster, vec![stage]).await;
    assert_eq!(summary.ending, SUCCEEDED, "{:?}", summary.view);
    assert_eq!(summary.view.stage(&key("a")).unwrap().attempts.len(), 5);
    let messages = bench.watcher.messages.lock().unwrap().clone();
    let steps = |message: &AttemptMessage| match message {
        AttemptMessage::Checkpoint { step } => Some(*step),
        _ => None,
    };
    assert_eq!(messages.iter().filter_map(steps).collect::<Vec<_>>()[..3], [10, 15, 20]);
    assert!(messages.iter().any(|m| matches!(m, AttemptMessage::Progress { done: 7, .. })));
}

#[tokio::test(start_paused = true)]
async fn reasons_and_handles_are_journaled() {
    let bench = Bench::new().await;
    let cluster = Cluster::new(|job| async move {
        job.waits("Priority");
        seconds(100).await;
        job.waits("Resources");
        seconds(100).await;
        job.runs_for(20).await;
        job.succeeds().await;
    });
    let summary = bench.run(&cluster, vec![node("a", &[])]).await;
    assert_eq!(summary.ending, SUCCEEDED);
    assert_eq!(bench.waits(), ["Priority", "Resources", "works"]);
    assert_eq!(bench.handles(), [(1, "job-1".to_string())]);
    let stage = summary.view.stage(&key("a")).unwrap();
    assert_eq!((stage.attempts[0].handle.as_deref(), stage.waited / 1_000), (Some("job-1"), 200));
    let explained = summary.view.explain(&key("a")).join("\n");
    assert!(explained.contains("attempt 1 on local as job-1: succeeded"), "{explained}");
}

#[tokio::test(start_paused = true)]
async fn unreachable_executor_is_retried() {
    let bench = Bench::new().await;
    let cluster = Cluster::succeeding_after(20);
    cluster.inner().refusals.extend([0; 4].map(|_| Error::retryable("controller down")));
    let summary = bench.run(&cluster, vec![node("a", &[]), node("b", &["a"])]).await;
    assert_eq!(summary.ending, SUCCEEDED);
    assert_eq!(summary.view.stage(&key("a")).unwrap().attempts.len(), 1, "no attempt was spent");
    assert_eq!(bench.waits(), ["pool `local` does not accept the attempt now: controller down", "works"]);
    assert_eq!(bench.notes().matches("accepts no attempts now").count(), 1, "{}", bench.notes());

    cluster.inner().refusals.extend([0; 99].map(|_| Error::retryable("controller down")));
    let (outcome, error) = end_of(&bench.run(&cluster, vec![node("c", &[])]).await, "c");
    let error = error.unwrap();
    assert_eq!((outcome, error.kind), (AttemptOutcome::Failed, ErrorKind::Retryable), "after ten minutes: {error}");
    assert!(error.message.contains("pool `local`: controller down"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn refused_attempt_fails_with_the_executor_error() {
    let bench = Bench::new().await;
    let cluster = Cluster::new(|job| async move { job.succeeds().await });
    cluster.inner().refusals.push_back(Error::invalid("invalid partition"));
    let summary = bench.run(&cluster, vec![node("a", &[])]).await;
    let (outcome, error) = end_of(&summary, "a");
    assert_eq!((summary.ending, outcome), (FAILED, AttemptOutcome::Failed));
    assert_eq!(error, Some(Error::invalid("pool `local`: invalid partition")));
}

#[tokio::test(start_paused = true)]
async fn unreachable_executor_costs_no_attempt() {
    let bench = Bench::new().await;
    let cluster = Cluster::new(|job| async move {
        job.runs_for(20).await;
        job.cluster.inner().away = 4;
        job.runs_for(60).await;
        job.succeeds().await;
    });
    let summary = bench.run(&cluster, vec![node("a", &[])]).await;
    assert_eq!(summary.ending, SUCCEEDED);
    let notes = bench.notes();
    assert_eq!(notes.matches("is unreachable now").count(), 1, "{notes}");
    assert_eq!(notes.matches("is reachable again").count(), 1, "{notes}");
}

#[tokio::test(start_paused = true)]
async fn silent_attempt_is_killed_and_lost() {
    let bench = Bench::new().await;
    let cluster = Cluster::new(|job| async move { job.runs_for(60).await });
    let summary = bench.run(&cluster, vec![node("a", &[])]).await;
    let (outcome, error) = end_of(&summary, "a");
    assert_eq!((outcome, error.as_ref().unwrap().kind), (AttemptOutcome::Lost, ErrorKind::Lost));
    assert!(error.unwrap().message.contains("sent no heartbeat for 3m"));
    assert_eq!(cluster.inner().cancels, [(Handle("job-1".into()), Control::Kill)]);
    let spec = bench.store.spec(&summary.run, &key("a"), 1).await.unwrap().unwrap();
    assert!(bench.store.cancel_request(&spec).await.unwrap().is_some(), "should it still run, it learns of it");
}

#[tokio::test(start_paused = true)]
async fn lost_attempt_is_requested_to_end() {
    let bench = Bench::new().await;
    let cluster = Cluster::new(|job| async move {
        job.runs_for(60).await;
        job.ends(AttemptExit::with_error(AttemptOutcome::Lost, Error::lost("its node failed")));
    });
    let summary = bench.run(&cluster, vec![node("a", &[])]).await;
    assert_eq!(end_of(&summary, "a").1, Some(Error::lost("its node failed")));
    let spec = bench.store.spec(&summary.run, &key("a"), 1).await.unwrap().unwrap();
    assert!(bench.store.cancel_request(&spec).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn store_outage_is_not_silence_of_an_attempt() {
    let bench = Bench::new().await;
    let faulty = bench.faulty.clone();
    let cluster = Cluster::new(move |job| {
        let faulty = faulty.clone();
        async move {
            job.runs_for(60).await;
            faulty.inject(StoreFault::BrokenRead, "heartbeat.json", u32::MAX);
            seconds(900).await;
            faulty.heal();
            job.runs_for(60).await;
            job.succeeds().await;
        }
    });
    let summary = bench.run(&cluster, vec![node("a", &[])]).await;
    assert_eq!(summary.ending, SUCCEEDED, "{:?}", end_of(&summary, "a"));
    assert!(cluster.inner().cancels.is_empty());
}

#[tokio::test(start_paused = true)]
async fn long_wait_for_a_machine_is_not_silence() {
    let (outcome, _) = ends(|job| async move {
        job.waits("Priority");
        seconds(5_000).await;
        job.starts();
        // Time to pull the image.
        seconds(500).await;
        job.runs_for(20).await;
        job.succeeds().await;
    })
    .await;
    assert_eq!(outcome, AttemptOutcome::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn timeout_counts_from_the_start_of_the_attempt() {
    let bench = Bench::new().await;
    let started = Arc::new(AtomicBool::new(false));
    let seen = started.clone();
    let cluster = Cluster::new(move |job| {
        let seen = seen.clone();
        async move {
            job.waits("Priority");
            seconds(1_000).await;
            seen.store(true, Ordering::SeqCst);
            job.runs_for(10_000).await;
        }
    });
    let mut stage = node("a", &[]);
    stage.timeout = Some(Duration::from_secs(100));
    let (outcome, error) = end_of(&bench.run(&cluster, vec![stage]).await, "a");
    assert_eq!((outcome, error.as_ref().unwrap().kind), (AttemptOutcome::TimedOut, ErrorKind::Retryable));
    assert!(error.unwrap().message.contains("timeout of 1m"), "the words of the local executor");
    assert!(started.load(Ordering::SeqCst), "the wait does not count");
    assert_eq!(cluster.inner().cancels, [(Handle("job-1".into()), Control::Kill)]);
}

/// Interrupts the run once the job has started.
async fn cancelled<F: Future<Output = ()> + Send + 'static>(
    script: impl Fn(Job) -> F + Send + Sync + 'static,
) -> (RunSummary, Arc<Cluster>) {
    let (bench, cluster) = (Bench::new().await, Cluster::new(script));
    let options = options();
    let interrupt = options.interrupt.clone();
    tokio::spawn(async move {
        seconds(60).await;
        interrupt.raise();
    });
    (run(options, plan(vec![node("a", &[])]), bench.context(&cluster)).await.unwrap(), cluster)
}

#[tokio::test(start_paused = true)]
async fn cancel_is_requested_in_the_store_first() {
    let (summary, cluster) = cancelled(|job| async move {
        job.starts();
        let mut beat = 0;
        while job.task.store.cancel_request(&job.task.spec).await.unwrap().is_none() {
            beat += 1;
            job.beats(beat, 0, None).await;
            seconds(10).await;
        }
        job.leaves_a_failure(AttemptOutcome::Cancelled, Error::cancelled("the attempt was stopped")).await;
        job.ends(AttemptExit::with_error(AttemptOutcome::Failed, Error::bug("exit code 1")));
    })
    .await;
    assert_eq!((&summary.ending, end_of(&summary, "a").0), (&CANCELLED, AttemptOutcome::Cancelled));
    assert!(cluster.inner().cancels.is_empty());
}

#[tokio::test(start_paused = true)]
async fn unresponsive_attempt_is_cancelled_then_killed() {
    let (summary, cluster) = cancelled(|job| async move { job.runs_for(10_000).await }).await;
    assert_eq!((&summary.ending, end_of(&summary, "a").0), (&CANCELLED, AttemptOutcome::Cancelled));
    let handle = || Handle("job-1".into());
    assert_eq!(cluster.inner().cancels, [(handle(), Control::Cancel), (handle(), Control::Kill)]);
}
