//! Tests the ownership of a run: takeover, fencing, and cancelling from outside.

use super::{CANCELLED, FakeBehavior, SUCCEEDED, Watcher, context, fake, key, memory, node, options, plan};
use crate::cancel::{CancelOutcome, cancel_run};
use crate::resume::{ProcessId, WriterState, read_run, writer_state};
use crate::{RunContext, RunEnding, RunOptions, run};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;
use trainyard_core::clock::ManualClock;
use trainyard_core::event::{Event, EventRecord, RunOutcome};
use trainyard_core::{Chance, Clock, ErrorKind, RunId, SystemClock};
use trainyard_engine::fold::{StageStatus, WriterView};
use trainyard_spec::plan::Plan;
use trainyard_store::{AppendError, JournalReader, JournalWriter, Store};

async fn wait_for_start(watcher: &Watcher) -> () {
    while !watcher.events.lock().unwrap().iter().any(|r| matches!(r.event, Event::AttemptStarted { .. })) {
        tokio::task::yield_now().await;
    }
}

/// Starts a run whose only attempt hangs until the gate opens.
async fn hanging(
    store: &Store,
) -> (tokio::task::JoinHandle<trainyard_core::Result<crate::RunSummary>>, watch::Sender<bool>, Plan, RunContext, RunId)
{
    let watcher = Arc::new(Watcher::default());
    let (gate, open) = watch::channel(false);
    let plan = plan(vec![node("a", &[]), node("b", &["a"])]);
    let context = context(store, fake(move |_| FakeBehavior::WaitFor(open.clone())), &watcher);
    let running = tokio::spawn(run(options(), plan.clone(), context.clone()));
    wait_for_start(&watcher).await;
    let id = store.list_runs().await.unwrap().pop().unwrap();
    (running, gate, plan, context, id)
}

/// Returns the journal of a run whose writer died: all events up to the first attempt, by a dead process.
async fn left_by_the_dead(store: &Store) -> (Plan, RunId) {
    let (plan, id, _) = left_by(store, ProcessId { pid: 0x3fff_fff0, ..ProcessId::own() }).await;
    (plan, id)
}

/// Returns the journal of an unfinished run, with all events up to the first attempt, whose last writer is this
/// process.
async fn left_by(store: &Store, process: ProcessId) -> (Plan, RunId, JournalWriter) {
    let (running, _gate, plan, _, id) = hanging(store).await;
    running.abort();
    let _ = running.await;
    let name = format!("{process}:test");
    let opened =
        |epoch| EventRecord { at: 1, event: Event::WriterOpened { epoch, writer: name.clone() } }.to_value().unwrap();
    let (writer, _) = JournalWriter::open(store, &id, &name, opened).await.unwrap();
    (plan, id, writer)
}

fn elsewhere() -> ProcessId {
    ProcessId { host: "elsewhere".into(), ..ProcessId::own() }
}

/// Clock that is far ahead of every journal, and that advances by 20 s between two reads.
#[derive(Default)]
struct FastClock(AtomicU64);

impl Clock for FastClock {
    fn unix_millis(&self) -> i64 {
        4_000_000_000_000
    }
    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.0.fetch_add(4, Ordering::SeqCst))
    }
}

fn ahead(store: &Store, watcher: &Arc<Watcher>) -> RunContext {
    RunContext { clock: Arc::new(FastClock::default()), ..context(store, fake(|_| FakeBehavior::Succeed), watcher) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fast_clock_does_not_replace_a_live_local_writer() {
    let store = memory().await;
    let (running, gate, plan, _, _) = hanging(&store).await;
    let watcher = Arc::new(Watcher::default());
    let error = run(options(), plan, ahead(&store, &watcher)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Retryable);
    assert!(error.to_string().contains("--take-over"), "{error}");
    assert!(watcher.notes.lock().unwrap().is_empty(), "there is nothing to wait for");
    gate.send(true).unwrap();
    assert_eq!(running.await.unwrap().unwrap().ending, SUCCEEDED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fast_clock_does_not_replace_a_remote_writer() {
    let store = memory().await;
    let (plan, _, mut writer) = left_by(&store, elsewhere()).await;
    let watcher = Arc::new(Watcher::default());
    // Time does not advance, so the run can only learn from the journal.
    let clock = Arc::new(ManualClock::at_millis(4_000_000_000_000));
    let context = RunContext { clock, ..context(&store, fake(|_| FakeBehavior::Succeed), &watcher) };
    let second = tokio::spawn(run(options(), plan, context));
    while watcher.notes.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    writer.append(&[EventRecord { at: 1, event: Event::Heartbeat {} }.to_value().unwrap()]).await.unwrap();
    let error = second.await.unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Retryable);
    assert!(error.to_string().contains("--take-over"), "{error}");
    let notes = watcher.notes.lock().unwrap().join("\n");
    assert!(notes.contains("waiting for 30 s") && notes.contains("elsewhere"), "{notes}");
    writer.append(&[EventRecord { at: 2, event: Event::Heartbeat {} }.to_value().unwrap()]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_remote_writer_is_replaced() {
    let store = memory().await;
    let (plan, id, mut writer) = left_by(&store, elsewhere()).await;
    let watcher = Arc::new(Watcher::default());
    let summary = run(options(), plan, ahead(&store, &watcher)).await.unwrap();
    assert_eq!((summary.run, summary.resumed, summary.ending), (id, true, SUCCEEDED));
    let notes = watcher.notes.lock().unwrap().join("\n");
    assert!(notes.contains("wrote nothing for 30 s"), "{notes}");
    let heartbeat = EventRecord { at: 1, event: Event::Heartbeat {} }.to_value().unwrap();
    assert!(matches!(writer.append(&[heartbeat]).await, Err(AppendError::Fenced(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_a_writer_can_be_interrupted() {
    let store = memory().await;
    let (plan, _, _writer) = left_by(&store, elsewhere()).await;
    let watcher = Arc::new(Watcher::default());
    let context = context(&store, fake(|_| FakeBehavior::Succeed), &watcher);
    let options = options();
    options.interrupt.raise();
    assert_eq!(run(options, plan, context).await.unwrap_err().kind, ErrorKind::Cancelled);
}

#[test]
fn writer_state_uses_process_or_last_record() {
    let clock = ManualClock::at_millis(100_000);
    let own = ProcessId::own();
    let view = |process: &ProcessId, last_seen| WriterView { epoch: 1, name: format!("{process}:x"), last_seen };
    assert_eq!(writer_state(&view(&own, 95_000), &clock), WriterState::Alive);
    assert_eq!(writer_state(&view(&own, 60_000), &clock), WriterState::Alive, "its process lives");
    let dead = ProcessId { pid: 0x3fff_fff0, ..own.clone() };
    assert_eq!(writer_state(&view(&dead, 100_000), &clock), WriterState::Dead);
    let elsewhere = ProcessId { host: "other".into(), ..own };
    assert_eq!(writer_state(&view(&elsewhere, 99_000), &clock), WriterState::Alive);
    assert_eq!(writer_state(&view(&elsewhere, 60_000), &clock), WriterState::Silent);
    assert_eq!(writer_state(&view(&elsewhere, 200_000), &clock), WriterState::Alive, "a clock ahead is no silence");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn same_command_takes_over_a_dead_run() {
    let store = memory().await;
    let (plan, id) = left_by_the_dead(&store).await;
    let watcher = Arc::new(Watcher::default());
    let summary = run(options(), plan, context(&store, fake(|_| FakeBehavior::Succeed), &watcher)).await.unwrap();
    assert_eq!((summary.run.clone(), summary.resumed, summary.ending.clone()), (id, true, SUCCEEDED));
    assert!(watcher.notes.lock().unwrap().iter().any(|n| n.contains("is gone")));
    let numbers: Vec<u32> = summary.view.stage(&key("a")).unwrap().attempts.iter().map(|a| a.number).collect();
    assert_eq!(numbers, [1, 2], "numbers only grow");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_writer_is_replaced_only_with_take_over() {
    let store = memory().await;
    let (running, gate, plan, _, id) = hanging(&store).await;
    let watcher = Arc::new(Watcher::default());
    let second = context(&store, fake(|_| FakeBehavior::Succeed), &watcher);
    let error = run(options(), plan.clone(), second.clone()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Retryable);
    assert!(error.to_string().contains("--take-over"), "{error}");
    let fresh = run(RunOptions { new: true, ..options() }, plan.clone(), second.clone()).await.unwrap();
    assert_ne!(fresh.run, id);
    gate.send(true).unwrap();
    let first = running.await.unwrap().unwrap();
    assert_eq!(first.ending, SUCCEEDED);
    assert!(first.view.stage(&key("a")).unwrap().adopted, "the other run published first");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fenced_writer_stops_and_reports_the_owner() {
    let store = memory().await;
    let (running, gate, plan, _, id) = hanging(&store).await;
    let watcher = Arc::new(Watcher::default());
    let second = context(&store, fake(|_| FakeBehavior::Succeed), &watcher);
    let taken = run(RunOptions { take_over: true, ..options() }, plan, second).await.unwrap();
    assert_eq!((taken.run.clone(), taken.ending.clone()), (id, SUCCEEDED));
    gate.send(true).unwrap();
    let first = running.await.unwrap().unwrap();
    let RunEnding::Fenced { by } = first.ending else { panic!("not fenced") };
    assert!(by.starts_with(&ProcessId::own().to_string()), "{by}");
    for stage in &taken.view.stages {
        let manifest = store.manifest(stage.digest.as_ref().unwrap()).await.unwrap().unwrap();
        assert_eq!((manifest.generation, manifest.provenance.attempt), (0, if stage.key().0 == "a" { 2 } else { 1 }));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dead_run_is_ended_by_cancel() {
    let store = memory().await;
    let (plan, id) = left_by_the_dead(&store).await;
    let (clock, chance) = (SystemClock::new(), Chance::new(7));
    assert_eq!(cancel_run(&store, &id, &clock, &chance, |_| ()).await.unwrap(), CancelOutcome::Ended);
    assert_eq!(cancel_run(&store, &id, &clock, &chance, |_| ()).await.unwrap(), CancelOutcome::AlreadyFinished);
    assert_eq!(read_run(&store, &id).await.unwrap().finished.unwrap().1, RunOutcome::Cancelled);
    let watcher = Arc::new(Watcher::default());
    let context = context(&store, fake(|_| FakeBehavior::Succeed), &watcher);
    let next = run(options(), plan.clone(), context.clone()).await.unwrap();
    assert_ne!(next.run, id, "a cancelled run is finished");
    let by_name =
        run(RunOptions { resume: Some(id.clone()), ..options() }, plan.clone(), context.clone()).await.unwrap();
    assert_eq!((by_name.run.clone(), by_name.ending.clone()), (id.clone(), SUCCEEDED));
    let again = run(RunOptions { resume: Some(id), ..options() }, plan, context).await.unwrap_err();
    assert!(again.message.contains("nothing to resume"), "{again}");
    assert!(again.help.is_some_and(|h| h.contains("trainyard run")), "what to do instead");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_with_silent_remote_writer_is_ended_by_cancel() {
    let store = memory().await;
    let id = RunId("20261121-000000-000000".into());
    let name = format!("{}:test", elsewhere());
    let opened = |epoch| {
        EventRecord { at: 1_000, event: Event::WriterOpened { epoch, writer: name.clone() } }.to_value().unwrap()
    };
    let (mut writer, _) = JournalWriter::open(&store, &id, &name, opened).await.unwrap();
    let chance = Chance::new(7);

    let (note_sender, mut notes) = tokio::sync::mpsc::unbounded_channel();
    let cancel = {
        let (store, id, chance) = (store.clone(), id.clone(), chance);
        let clock = ManualClock::at_millis(86_400_000);
        let note = move |text: &str| note_sender.send(text.to_string()).unwrap();
        tokio::spawn(async move { cancel_run(&store, &id, &clock, &chance, note).await })
    };
    assert!(notes.recv().await.unwrap().contains("waiting for 30 s"));
    let heartbeat = || EventRecord { at: 40_000, event: Event::Heartbeat {} }.to_value().unwrap();
    writer.append(&[heartbeat()]).await.unwrap();
    assert_eq!(cancel.await.unwrap().unwrap(), CancelOutcome::Requested, "it lives, whatever the local clock shows");

    assert_eq!(cancel_run(&store, &id, &FastClock::default(), &chance, |_| ()).await.unwrap(), CancelOutcome::Ended);
    assert_eq!(read_run(&store, &id).await.unwrap().finished.unwrap().1, RunOutcome::Cancelled);
    assert!(
        matches!(writer.append(&[heartbeat()]).await, Err(AppendError::Fenced(_))),
        "should it live after all, it writes nothing more"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn live_run_sees_the_cancel_request() {
    let store = memory().await;
    let watcher = Arc::new(Watcher::default());
    let folder = tempfile::tempdir().unwrap();
    let local = Store::open(folder.path().to_str().unwrap(), trainyard_store::StoreOptions::default()).await.unwrap();
    drop(store);
    let running = tokio::spawn(run(
        options(),
        plan(vec![node("a", &[])]),
        context(&local, fake(|_| FakeBehavior::Hang), &watcher),
    ));
    wait_for_start(&watcher).await;
    let id = local.list_runs().await.unwrap().pop().unwrap();
    let outcome = cancel_run(&local, &id, &SystemClock::new(), &Chance::new(7), |_| ()).await;
    assert_eq!(outcome.unwrap(), CancelOutcome::Requested);
    let summary = running.await.unwrap().unwrap();
    assert_eq!(
        (summary.ending.clone(), summary.view.stage(&key("a")).unwrap().status),
        (CANCELLED, StageStatus::Cancelled)
    );
    let batches = JournalReader::read_all(&local, &id).await.unwrap();
    assert!(batches.iter().flat_map(|b| &b.events).any(|e| e["type"] == "cancel_requested"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_is_not_resumed_with_another_plan() {
    let store = memory().await;
    let (_, id) = left_by_the_dead(&store).await;
    let watcher = Arc::new(Watcher::default());
    let other = plan(vec![node("x", &[])]);
    let context = context(&store, fake(|_| FakeBehavior::Succeed), &watcher);
    let error = run(RunOptions { resume: Some(id), ..options() }, other, context.clone()).await.unwrap_err();
    assert!(error.message.contains("another plan"), "{error}");
    let missing = RunOptions { resume: Some(RunId("20200101-000000-000000".into())), ..options() };
    let error = run(missing, plan(vec![node("x", &[])]), context).await.unwrap_err();
    assert!(error.message.contains("there is no run"), "{error}");
    assert!(error.help.is_some_and(|h| h.contains("runs list")), "where to look");
}
