//! Tests attempts of this machine that outlive their engine.

use super::processes::{Bench, FAMILY, SUCCEED, end_of, is_alive, local, stage};
use super::{CANCELLED, FAILED, SUCCEEDED, attempt_spec, context, key, options, plan};
use crate::executors::{AttemptReporter, AttemptTask, Executor, ExecutorContext, Handle, kinds};
use crate::{RunContext, RunOptions, run};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::ErrorKind;
use trainyard_core::attempt::AttemptMessage;
use trainyard_core::event::{AttemptOutcome, Event};
use trainyard_engine::Grant;
use trainyard_store::layout;

fn keeping(bench: &Bench, script: &str) -> RunContext {
    let executors = local(bench.launcher(script), Some(bench.slots()), &json!({"orphans": "keep"}));
    context(&bench.store, executors, &bench.watcher)
}

async fn wait_for(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn detached_attempt_uses_the_store_only() {
    let bench = Bench::new().await;
    let script = format!(r#"echo "supervised:$TRAINYARD_SUPERVISED $(cat)" > "$TEST_FOLDER/stdout"; {SUCCEED}"#);
    let summary = run(options(), plan(vec![stage()]), keeping(&bench, &script)).await.unwrap();
    assert_eq!(summary.ending, SUCCEEDED, "{:?}", summary.view);
    let output = std::fs::read_to_string(bench.folder.path().join("stdout")).unwrap();
    assert_eq!(output, "supervised: \n", "its stdin is empty");
    let handle = summary.view.stage(&key("a")).unwrap().attempts[0].handle.clone().unwrap();
    assert!(handle.contains(":trainyard-"), "{handle}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn detached_failures_have_error_kinds() {
    let cases = [
        ("exit 3", AttemptOutcome::Failed, ErrorKind::Bug, "ended with code 3"),
        ("kill -9 $$", AttemptOutcome::Lost, ErrorKind::Lost, "signal 9"),
    ];
    for (script, outcome, kind, text) in cases {
        let bench = Bench::new().await;
        let summary = run(options(), plan(vec![stage()]), keeping(&bench, script)).await.unwrap();
        assert_eq!(summary.ending, FAILED);
        let (found, error) = end_of(&summary);
        assert_eq!((found, error.kind), (outcome, kind), "{script}: {error}");
        assert!(error.message.contains(text), "{script}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn detached_attempt_outlives_its_engine() {
    let bench = Bench::new().await;
    let wait = r#"echo begun >> "$TEST_FOLDER/begun"; while [ ! -e "$TEST_FOLDER/go" ]; do sleep 0.02; done"#;
    let script = format!("{wait}\n{SUCCEED}");
    let first = tokio::spawn(run(options(), plan(vec![stage()]), keeping(&bench, &script)));
    let journaled = || {
        let events = bench.watcher.events.lock().unwrap();
        events.iter().any(|record| matches!(record.event, Event::AttemptSubmitted { .. }))
    };
    wait_for(|| journaled() && bench.folder.path().join("begun").exists()).await;
    first.abort();
    let _ = first.await;
    let next = RunOptions { take_over: true, ..options() };
    let second = tokio::spawn(run(next, plan(vec![stage()]), keeping(&bench, &script)));
    let found = || {
        let events = bench.watcher.events.lock().unwrap();
        events.iter().filter(|record| matches!(record.event, Event::AttemptSubmitted { .. })).count() == 2
    };
    wait_for(found).await;
    assert!(!second.is_finished());
    assert_eq!(bench.slots().used_by_others().unwrap().cpus, 1, "its slots are its own");
    std::fs::write(bench.folder.path().join("go"), "").unwrap();
    let summary = second.await.unwrap().unwrap();
    assert_eq!((summary.resumed, summary.ending), (true, SUCCEEDED));
    assert_eq!(summary.view.stage(&key("a")).unwrap().attempts.len(), 1);
    assert_eq!(bench.slots().used_by_others().unwrap().cpus, 0, "they are free again");
    assert_eq!(std::fs::read_to_string(bench.folder.path().join("begun")).unwrap(), "begun\n", "it began once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kill_of_a_detached_attempt_kills_its_tree() {
    let bench = Bench::new().await;
    let options = options();
    let (interrupt, runaway) = (options.interrupt.clone(), bench.folder.path().join("runaway"));
    tokio::spawn(async move {
        wait_for(|| std::fs::read_to_string(&runaway).is_ok_and(|pid| !pid.is_empty())).await;
        interrupt.raise();
        interrupt.raise();
    });
    let script = format!("{FAMILY} trap '' TERM; sleep 300");
    let summary = run(options, plan(vec![stage()]), keeping(&bench, &script)).await.unwrap();
    assert_eq!((&summary.ending, end_of(&summary).0), (&CANCELLED, AttemptOutcome::Cancelled));
    assert!(!is_alive(&bench, "child") && !is_alive(&bench, "runaway"));
}

struct DetachedReportStub;

impl AttemptReporter for DetachedReportStub {
    fn message(&self, _: AttemptMessage) {}
    fn raw(&self, _: &str) {}
    fn waits(&self, _: Option<&str>) {}
}

/// Returns an attempt, and two independent executors.
async fn two(bench: &Bench, script: &str) -> (AttemptTask, [Arc<dyn Executor>; 2]) {
    let spec = Arc::new(attempt_spec());
    let folder = layout::attempt(&spec.run, &spec.stage, spec.attempt);
    let grant = Grant::new("local", "local", Vec::new());
    let store = bench.store.clone();
    let task = AttemptTask { spec, grant, store, folder, timeout: None, reports: Arc::new(DetachedReportStub) };
    let launching = ExecutorContext { pool: "local".into(), launcher: bench.launcher(script), slots: None };
    let executor = || kinds()[0].build(&launching, &json!({"orphans": "keep"})).unwrap();
    (task, [executor(), executor()])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_submission_finds_the_first() {
    let bench = Bench::new().await;
    let (task, [one, two]) = two(&bench, r#"echo begun >> "$TEST_FOLDER/begun"; sleep 300"#).await;
    let first = one.submit(std::slice::from_ref(&task)).await.remove(0).unwrap();
    wait_for(|| bench.folder.path().join("begun").exists()).await;
    for executor in [&one, &two] {
        assert_eq!(executor.submit(std::slice::from_ref(&task)).await.remove(0).unwrap(), first);
    }
    assert_eq!(two.reattach(&task, None).await.unwrap(), Some(first.clone()));
    two.cancel(&first, crate::executors::Control::Kill).await.unwrap();
    for executor in [&one, &two] {
        loop {
            executor.changed().await;
            let state = executor.poll(std::slice::from_ref(&first)).await.unwrap().remove(0);
            if matches!(state, crate::executors::AttemptState::Ended(_)) {
                break;
            }
        }
    }
    assert_eq!(two.reattach(&task, Some(&first)).await.unwrap(), None);
    assert_eq!(std::fs::read_to_string(bench.folder.path().join("begun")).unwrap(), "begun\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attempt_on_another_host_is_not_visible() {
    let bench = Bench::new().await;
    let (task, [executor, _]) = two(&bench, "exit 0").await;
    let handle = Handle(format!("elsewhere-0a1b2c3d:{}", task.key()));
    let error = executor.reattach(&task, Some(&handle)).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Retryable);
    assert!(error.message.contains("elsewhere-0a1b2c3d") && error.help.is_some(), "{error}");
}

#[test]
fn options_are_parsed_by_type() {
    let launcher = crate::executors::Launcher::new("trainyard");
    let launching = ExecutorContext { pool: "big".into(), launcher, slots: None };
    let refused = |options| kinds()[0].build(&launching, &options).err().unwrap();
    for options in [json!({"orphans": "sometimes"}), json!({"orphan": "keep"})] {
        let error = refused(options);
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.message.contains("pool `big`") && error.help.is_some(), "{error}");
    }
    let stops = kinds()[0].build(&launching, &json!({})).unwrap().capabilities();
    assert!(stops.relays && !stops.outlives_engine && stops.shares_files);
    let keeps = kinds()[0].build(&launching, &json!({"orphans": "keep"})).unwrap().capabilities();
    assert!(!keeps.relays && keeps.outlives_engine && keeps.shares_files);
}
