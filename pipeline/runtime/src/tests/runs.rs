//! Tests runs without processes.

use super::{
    CANCELLED, FAILED, FakeBehavior, SUCCEEDED, Watcher, context, fake, inside, key, memory, node, options, plan,
};
use crate::resume::{follow, open_run};
use crate::summary::{LoadedSummary, read_summary};
use crate::{RunOptions, forecast, run};
use std::sync::Arc;
use trainyard_core::attempt::{AttemptMessage, LogLevel, LogRecord};
use trainyard_core::event::{AttemptOutcome, Event, EventRecord};
use trainyard_core::{Error, ErrorKind, RunId};
use trainyard_engine::fold::StageStatus;
use trainyard_engine::forecast::ForecastDecision;
use trainyard_spec::template::Template;
use trainyard_store::{AttemptStream, JournalReader, JournalWriter, Store, StoreOptions, layout};
use trainyard_testkit::faults::{FaultyStore, StoreFault};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chain_runs_and_then_hits_the_cache() {
    let store = memory().await;
    let watcher = Arc::new(Watcher::default());
    let plan = plan(vec![node("a", &[]), inside("b", &["a"]), node("c", &["b"])]);
    let context = context(&store, fake(|_| FakeBehavior::Succeed), &watcher);
    let first = run(options(), plan.clone(), context.clone()).await.unwrap();
    assert_eq!((&first.ending, first.resumed), (&SUCCEEDED, false));
    assert!(first.view.stages.iter().all(|s| s.status == StageStatus::Done));
    let again = run(options(), plan.clone(), context.clone()).await.unwrap();
    assert_ne!(again.run, first.run, "a finished run is not resumed");
    assert!(again.view.stages.iter().all(|s| s.status == StageStatus::Hit));
    let decisions: Vec<ForecastDecision> =
        forecast(&options(), &plan, &context).await.unwrap().iter().map(|f| f.decision).collect();
    assert_eq!(decisions, [ForecastDecision::Hit; 3]);
    assert_eq!(
        store
            .manifest(first.view.stage(&key("c")).unwrap().digest.as_ref().unwrap())
            .await
            .unwrap()
            .unwrap()
            .generation,
        0
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn journal_contains_the_whole_run() {
    let store = memory().await;
    let watcher = Arc::new(Watcher::default());
    let summary =
        run(options(), plan(vec![node("a", &[])]), context(&store, fake(|_| FakeBehavior::Succeed), &watcher))
            .await
            .unwrap();
    assert_eq!(crate::resume::read_run(&store, &summary.run).await.unwrap(), summary.view);
    let batches = JournalReader::read_all(&store, &summary.run).await.unwrap();
    let types: Vec<&str> = batches.iter().flat_map(|b| &b.events).filter_map(|e| e["type"].as_str()).collect();
    assert_eq!(
        types,
        [
            "writer_opened",
            "run_created",
            "stage_digested",
            "attempt_started",
            "attempt_ended",
            "published",
            "run_finished"
        ]
    );
    let (log, _) = store.read_chunks(&summary.run, &key("a"), 1, AttemptStream::Log, 0).await.unwrap();
    let record = LogRecord::parse(std::str::from_utf8(&log).unwrap());
    assert_eq!((record.level, record.text.as_str(), record.at.is_some()), (LogLevel::Info, "hello", true));
    let (metrics, _) = store.read_chunks(&summary.run, &key("a"), 1, AttemptStream::Metrics, 0).await.unwrap();
    assert!(String::from_utf8(metrics).unwrap().contains("\"loss\""));
    assert!(watcher.messages.lock().unwrap().iter().any(|m| matches!(m, AttemptMessage::Metric { .. })));
    let spec = store.spec(&summary.run, &key("a"), 1).await.unwrap().unwrap();
    assert_eq!(Some(&spec.stage_digest), summary.view.stage(&key("a")).unwrap().digest.as_ref());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn summary_of_a_long_run_is_valid_until_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap(), StoreOptions::default()).await.unwrap();
    let context = context(&store, fake(|_| FakeBehavior::Succeed), &Arc::new(Watcher::default()));
    let names: Vec<String> = (0..20).map(|n| format!("n{n}")).collect();
    let after = |n: usize| n.checked_sub(1).map(|before| names[before].as_str());
    let chain = (0..20).map(|n| node(&names[n], after(n).as_slice())).collect();
    let long = run(options(), plan(chain), context.clone()).await.unwrap();
    assert_eq!(read_summary(&store, &long.run).await.unwrap(), LoadedSummary::Totals(long.view.totals()));
    assert_eq!((long.view.totals().all(), long.view.totals().of(StageStatus::Done)), (20, 20));
    // The journal is read only at its beginning.
    let middle = folder.path().join(layout::journal(&long.run, 17));
    let aside = std::fs::read(&middle).unwrap();
    std::fs::remove_file(&middle).unwrap();
    assert!(matches!(read_summary(&store, &long.run).await, Ok(LoadedSummary::Totals(_))));
    std::fs::write(&middle, aside).unwrap();

    let opened =
        |epoch| EventRecord { at: 1, event: Event::WriterOpened { epoch, writer: "w".into() } }.to_value().unwrap();
    JournalWriter::open(&store, &long.run, "w", opened).await.unwrap();
    let LoadedSummary::View(view) = read_summary(&store, &long.run).await.unwrap() else { panic!("the run goes on") };
    assert_eq!((view.finished, view.writer.epoch), (None, 2));

    let short = run(options(), plan(vec![node("a", &[])]), context).await.unwrap();
    assert_eq!(read_summary(&store, &short.run).await.unwrap(), LoadedSummary::View(Box::new(short.view)));
    assert!(store.list(&layout::summaries(&short.run)).await.unwrap().is_empty(), "its journal is read as fast");
}

#[tokio::test]
async fn following_a_run_reads_nothing_twice() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().to_str().unwrap(), StoreOptions::default()).await.unwrap();
    let id = RunId("20261121-000000-000000".into());
    let value = |at, event| EventRecord { at, event }.to_value().unwrap();
    let opened = |epoch| value(1, Event::WriterOpened { epoch, writer: "w".into() });
    let (mut writer, _) = JournalWriter::open(&store, &id, "w", opened).await.unwrap();
    let (mut view, mut journal) = open_run(&store, &id).await.unwrap();
    // Batches that were already read are not read again.
    std::fs::remove_file(folder.path().join(layout::journal(&id, 0))).unwrap();
    assert!(!follow(&mut journal, &mut view).await.unwrap());
    for at in 2..40 {
        writer.append(&[value(at, Event::Heartbeat {})]).await.unwrap();
    }
    assert!(follow(&mut journal, &mut view).await.unwrap());
    assert_eq!((view.writer.epoch, view.writer.last_seen), (1, 39));
    assert!(!follow(&mut journal, &mut view).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn specs_record_store_durability() {
    for durability_fsync in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        let options_of_store = StoreOptions { durability_fsync, ..StoreOptions::default() };
        let store = Store::open(folder.path().to_str().unwrap(), options_of_store).await.unwrap();
        let context = context(&store, fake(|_| FakeBehavior::Succeed), &Arc::new(Watcher::default()));
        let summary = run(options(), plan(vec![node("a", &[])]), context).await.unwrap();
        assert_eq!(store.spec(&summary.run, &key("a"), 1).await.unwrap().unwrap().fsync, durability_fsync);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_stage_is_not_a_run_error() {
    let store = memory().await;
    let watcher = Arc::new(Watcher::default());
    let mut broken = inside("b", &[]);
    broken.config = Template::Literal(serde_json::json!({"panic": true}));
    let fails = |_: &_| FakeBehavior::Fail(Error::data("row 7 is damaged"));
    let summary =
        run(options(), plan(vec![node("a", &[]), broken, node("c", &["a"])]), context(&store, fake(fails), &watcher))
            .await
            .unwrap();
    assert_eq!(summary.ending, FAILED);
    let error = |s: &str| summary.view.stage(&key(s)).unwrap().error.clone().unwrap();
    assert_eq!(error("a").message, "row 7 is damaged");
    assert_eq!(
        (error("b").kind, summary.view.stage(&key("c")).unwrap().status),
        (ErrorKind::Bug, StageStatus::Blocked)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn progress_resets_the_attempt_limit() {
    let store = memory().await;
    let act = |spec: &trainyard_core::attempt::AttemptSpec| match spec.attempt {
        attempt @ 1..5 => FakeBehavior::FailAfter(u64::from(attempt), Error::retryable("503")),
        _ => FakeBehavior::Succeed,
    };
    let mut stage = node("a", &[]);
    stage.retry.attempts = 2;
    let context = context(&store, fake(act), &Arc::new(Watcher::default()));
    let summary = run(options(), plan(vec![stage]), context).await.unwrap();
    assert_eq!(summary.ending, SUCCEEDED);
    assert_eq!(summary.view.stage(&key("a")).unwrap().attempts.len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn interrupt_stops_attempts_and_ends_the_run() {
    let store = memory().await;
    let watcher = Arc::new(Watcher::default());
    let options = options();
    let interrupt = options.interrupt.clone();
    let started = watcher.clone();
    tokio::spawn(async move {
        while !started.events.lock().unwrap().iter().any(|r| matches!(r.event, Event::AttemptStarted { .. })) {
            tokio::task::yield_now().await;
        }
        interrupt.raise();
    });
    let summary = run(
        options,
        plan(vec![node("a", &[]), node("b", &["a"])]),
        context(&store, fake(|_| FakeBehavior::Hang), &watcher),
    )
    .await
    .unwrap();
    assert_eq!(summary.ending, CANCELLED);
    assert!(summary.view.stages.iter().all(|s| s.status == StageStatus::Cancelled));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_only_store_ends_the_run_and_keeps_publications() {
    let (faulty, store) = faulty().await;
    let watcher = Arc::new(Watcher::default());
    let breaks = faulty.clone();
    let act = move |spec: &trainyard_core::attempt::AttemptSpec| {
        if spec.stage.0 == "b" {
            breaks.inject(StoreFault::ReadOnly, "journal", u32::MAX);
        }
        FakeBehavior::Succeed
    };
    let plan = plan(vec![node("a", &[]), node("b", &["a"])]);
    let context = context(&store, fake(act), &watcher);
    let error = run(options(), plan.clone(), context.clone()).await.unwrap_err();
    assert!(error.message.contains("journal"), "{error}");
    faulty.heal();
    let resumed = run(RunOptions { take_over: true, ..options() }, plan, context).await.unwrap();
    assert!(resumed.resumed);
    assert_eq!(resumed.ending, SUCCEEDED);
    assert_eq!(resumed.view.stage(&key("a")).unwrap().attempts.len(), 1, "what was published is a hit");
    assert_eq!(
        resumed.view.stage(&key("b")).unwrap().attempts.len(),
        1,
        "the result that was left is recovered, not computed again"
    );
}

/// Creates a store whose writes fail on command.
async fn faulty() -> (Arc<FaultyStore>, Store) {
    let faulty = FaultyStore::new(Arc::new(object_store::memory::InMemory::new()));
    let store = Store::from_object_store(faulty.clone(), "memory://faulty", StoreOptions::default()).await.unwrap();
    (faulty, store)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delayed_manifest_write_costs_no_attempt() {
    let (faulty, store) = faulty().await;
    // More than the tries of one write.
    faulty.inject(StoreFault::LostRequest, "artifacts/", 6);
    let watcher = Arc::new(Watcher::default());
    let summary =
        run(options(), plan(vec![node("a", &[])]), context(&store, fake(|_| FakeBehavior::Succeed), &watcher))
            .await
            .unwrap();
    assert_eq!(summary.ending, SUCCEEDED);
    let attempts = &summary.view.stage(&key("a")).unwrap().attempts;
    assert_eq!((attempts.len(), &attempts[0].error), (1, &None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unpublished_result_is_published_by_a_resume() {
    let (faulty, store) = faulty().await;
    faulty.inject(StoreFault::Denied, "artifacts/", u32::MAX);
    let watcher = Arc::new(Watcher::default());
    let (plan, context) = (plan(vec![node("a", &[])]), context(&store, fake(|_| FakeBehavior::Succeed), &watcher));
    let first = run(options(), plan.clone(), context.clone()).await.unwrap();
    assert_eq!(first.ending, FAILED);
    let a = first.view.stage(&key("a")).unwrap();
    assert_eq!(a.attempts[0].outcome, Some(AttemptOutcome::Succeeded), "the attempt did its part");
    let error = a.error.clone().unwrap();
    assert!(error.to_string().contains("artifacts/") && error.to_string().contains("runs resume"), "{error}");
    faulty.heal();
    let resumed = run(RunOptions { resume: Some(first.run.clone()), ..options() }, plan, context).await.unwrap();
    assert_eq!((&resumed.run, &resumed.ending), (&first.run, &SUCCEEDED));
    assert_eq!(resumed.view.stage(&key("a")).unwrap().attempts.len(), 1, "nothing is computed again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unplaceable_plan_creates_no_run() {
    let store = memory().await;
    let watcher = Arc::new(Watcher::default());
    let mut large = node("a", &[]);
    large.resources[0].gpus = 4;
    let error = run(options(), plan(vec![large]), context(&store, fake(|_| FakeBehavior::Succeed), &watcher))
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(store.list_runs().await.unwrap().is_empty());
}

/// Run manually: `cargo test --release -p trainyard-runtime -- --ignored --nocapture many`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures, does not judge"]
async fn many_stages() {
    use trainyard_core::Clock;
    let clock = trainyard_core::SystemClock::new();
    let wide: Vec<String> = (0..10_000).map(|i| format!("n{i}")).collect();
    let chain: Vec<String> = (0..1_000).map(|i| format!("c{i}")).collect();
    let wide_plan = plan(wide.iter().map(|n| inside(n, &[])).collect());
    let chain_plan = plan(
        (0..chain.len())
            .map(|i| inside(&chain[i], &chain[..i].iter().rev().take(1).map(String::as_str).collect::<Vec<_>>()))
            .collect(),
    );
    for round in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().to_str().unwrap(), StoreOptions::default()).await.unwrap();
        let context = context(&store, fake(|_| FakeBehavior::Succeed), &Arc::new(Watcher::default()));
        for (name, plan, stages) in [
            ("wide", &wide_plan, 10_000.0),
            ("wide, all hits", &wide_plan, 10_000.0),
            ("chain", &chain_plan, 1_000.0),
            ("chain, all hits", &chain_plan, 1_000.0),
        ] {
            let start = clock.monotonic();
            assert_eq!(run(options(), plan.clone(), context.clone()).await.unwrap().ending, SUCCEEDED);
            let seconds = (clock.monotonic() - start).as_secs_f64();
            println!("round {round}: {name}: {seconds:.3} s, {:.3} ms a stage", seconds * 1_000.0 / stages);
        }
    }
}
