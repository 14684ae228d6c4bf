//! Tests that commands that start one plan at the same time begin one run.

use super::{FakeBehavior, SUCCEEDED, Watcher, context, fake, key, memory, node, options, plan};
use crate::resume::claims::{self, RunClaim};
use crate::resume::{ProcessId, identity};
use crate::{RunOptions, run};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::watch;
use tokio::task::JoinSet;
use trainyard_core::event::Selection;
use trainyard_core::{ErrorKind, RunId};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_commands_begin_one_run() {
    let store = memory().await;
    let plan = plan(vec![node("a", &[])]);
    let (gate, open) = watch::channel(false);
    let attempts = Arc::new(AtomicUsize::new(0));
    let mut commands = JoinSet::new();
    for _ in 0..6 {
        let (counted, open) = (attempts.clone(), open.clone());
        let executor = fake(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            FakeBehavior::WaitFor(open.clone())
        });
        let context = context(&store, executor, &Arc::new(Watcher::default()));
        commands.spawn(run(options(), plan.clone(), context));
    }
    for _ in 0..5 {
        let error = commands.join_next().await.unwrap().unwrap().unwrap_err();
        assert_eq!(error.kind, ErrorKind::Retryable);
        assert!(error.to_string().contains("is being written by"), "{error}");
    }
    gate.send(true).unwrap();
    assert_eq!(commands.join_next().await.unwrap().unwrap().unwrap().ending, SUCCEEDED);
    assert_eq!(attempts.load(Ordering::SeqCst), 1);
    assert_eq!(store.list_runs().await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claim_expires_with_its_owner() {
    let store = memory().await;
    let plan = plan(vec![node("a", &[])]);
    let identity = identity(&plan, &Selection::default()).unwrap();
    let claim = |process: &ProcessId, run: &str| RunClaim { run: RunId(run.into()), writer: format!("{process}:test") };
    let command = |options| {
        let context = context(&store, fake(|_| FakeBehavior::Succeed), &Arc::new(Watcher::default()));
        run(options, plan.clone(), context)
    };

    let alive = claim(&ProcessId::own(), "20261121-000000-000000");
    assert!(claims::put(&store, &identity, 0, &alive).await.unwrap());
    assert!(!claims::put(&store, &identity, 0, &claim(&ProcessId::own(), "20261121-000000-000001")).await.unwrap());
    let error = command(options()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Retryable, "its first batch is on its way");
    let other = command(RunOptions { new: true, ..options() }).await.unwrap();
    assert_ne!(other.run, alive.run);

    let dead = claim(&ProcessId { pid: 0x3fff_fff0, ..ProcessId::own() }, "20261121-000000-000002");
    let (last, next) = claims::last(&store, &identity).await.unwrap();
    assert_eq!((last.unwrap().run, next), (other.run, 2));
    assert!(claims::put(&store, &identity, next, &dead).await.unwrap());
    let summary = command(options()).await.unwrap();
    assert_eq!((&summary.run, summary.resumed, &summary.ending), (&dead.run, false, &SUCCEEDED));
    assert!(summary.view.stage(&key("a")).is_some(), "its journal has the plan");
    let (last, next) = claims::last(&store, &identity).await.unwrap();
    assert_eq!((last, next), (Some(dead), 3), "the claim was kept, not made anew");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_claim_keeps_its_number() {
    let store = memory().await;
    let plan = plan(vec![node("a", &[])]);
    let identity = identity(&plan, &Selection::default()).unwrap();
    store.create(&trainyard_store::layout::claim(&identity, 0), "{half".into()).await.unwrap();
    let context = context(&store, fake(|_| FakeBehavior::Succeed), &Arc::new(Watcher::default()));
    let summary = run(options(), plan, context).await.unwrap();
    let (last, next) = claims::last(&store, &identity).await.unwrap();
    assert_eq!((last.unwrap().run, next), (summary.run, 2));
}
