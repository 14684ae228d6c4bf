//! Tests requests of runs with files on a disk and a daemon whose processes are scripted.

use super::*;
use crate::api::tokens::ApiTokens;
use crate::daemon::{Daemon, DaemonShared};
use crate::effects::{DaemonEffects, DaemonNotification, RunProcessState, StartRunRequest};
use crate::folder::WorkflowFolder;
use crate::log::ScheduleLog;
use crate::schedule::event::TickOutcome;
use crate::testing::compiled;
use futures::future::BoxFuture;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tempfile::TempDir;
use trainyard_core::{Chance, SystemClock};
use trainyard_runtime::Interrupt;
use trainyard_store::{Store, StoreOptions};

/// Processes that end at once with exit code 2, which gives a run up.
#[derive(Default)]
struct Script {
    started: Mutex<Vec<StartRunRequest>>,
    resumed: Mutex<Vec<RunId>>,
}

impl DaemonEffects for Script {
    fn is_alive(&self, _: &str) -> Option<bool> {
        Some(false)
    }
    fn start<'a>(&'a self, request: &'a StartRunRequest) -> BoxFuture<'a, Result<()>> {
        self.started.lock().unwrap().push(request.clone());
        Box::pin(async { Ok(()) })
    }
    fn process(&self, run: &RunId) -> RunProcessState {
        match self.started.lock().unwrap().iter().any(|request| request.run == *run) {
            false => RunProcessState::None,
            true => RunProcessState::Ended { code: Some(2), stderr: "scripted".into() },
        }
    }
    fn forget(&self, _: &RunId) {}
    fn cancel(&self, _: &RunId) {}
    fn notify(&self, _: DaemonNotification) {}
}

impl RunResumer for Script {
    fn resume<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, Result<()>> {
        self.resumed.lock().unwrap().push(run.clone());
        Box::pin(async { Ok(()) })
    }
}

const FILE: &str = "version: 1\nname: train\nparams:\n  steps: {type: int, min: 1}\n  \
    tick: {type: string, default: ''}\nstages:\n  one: {run: 'echo ${{ params.steps }}', cache: false}\n";

struct Fixture {
    root: TempDir,
    script: Arc<Script>,
    shared: Arc<DaemonShared>,
    control: Arc<DaemonControl>,
}

impl Fixture {
    async fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("train.yaml"), FILE).unwrap();
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        let (script, shared) = (Arc::new(Script::default()), Arc::new(DaemonShared::default()));
        let api = ApiState {
            store,
            clock: Arc::new(SystemClock::new()),
            chance: Chance::new(1),
            daemon: shared.clone(),
            tokens: ApiTokens::default(),
            version: "0.0.0",
            changes: AtomicU64::new(0),
        };
        let control = Arc::new(DaemonControl {
            api: Arc::new(api),
            folder: root.path().canonicalize().unwrap(),
            home: "here".into(),
            compile: Box::new(compiled),
            resumer: script.clone(),
        });
        Self { root, script, shared, control }
    }
    fn store(&self) -> &Store {
        &self.control.api.store
    }
    fn daemon(&self, name: &str) -> Daemon {
        Daemon {
            store: self.store().clone(),
            clock: self.control.api.clock.clone(),
            chance: Chance::new(2),
            name: name.to_string(),
            home: "here".into(),
            effects: self.script.clone(),
            compile: Box::new(|path| compiled(path, &[])),
            folder: WorkflowFolder::new(self.root.path()).unwrap(),
            shared: self.shared.clone(),
            changes: VecDeque::new(),
        }
    }
    /// Runs a daemon until `is_done`, for at most 20 s.
    async fn run_until(&self, name: &str, mut is_done: impl AsyncFnMut() -> bool) {
        let interrupt = Interrupt::default();
        let waiting = async {
            for _ in 0..1_000 {
                if is_done().await {
                    break;
                }
                self.shared.wake();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            interrupt.raise();
        };
        tokio::join!(self.daemon(name).run(&interrupt), waiting);
        assert!(is_done().await, "not within 20 s");
    }
}

#[tokio::test]
async fn unscheduled_file_is_started_with_its_params_and_its_end_is_recorded() {
    let fixture = Fixture::new().await;
    fixture.run_until("first", async || !fixture.control.files().is_empty()).await;
    let [file]: [FolderFile; 1] = fixture.control.files().try_into().unwrap();
    assert_eq!((file.file.as_str(), file.workflow.as_str(), file.is_scheduled), ("train.yaml", "train", false));
    assert!(file.mistakes.unwrap().contains("param `steps` has no value"));
    let params = vec!["steps=3".to_string()];
    let tick = fixture.control.start("train.yaml", params.clone(), "pages:ada").await.unwrap();
    let has_ended = async || ScheduleLog::open(fixture.store(), "train").await.unwrap().state().last.is_some();
    fixture.run_until("second", has_ended).await;
    let started = fixture.script.started.lock().unwrap().clone();
    assert_eq!((started.len(), &started[0].run, &started[0].params), (1, &tick.run, &params));
    assert_eq!((started[0].file.as_str(), started[0].schedule.as_str()), ("train.yaml", "train"));
    let log = ScheduleLog::open(fixture.store(), "train").await.unwrap();
    let last = log.state().last.clone().unwrap();
    assert_eq!((last.run, last.outcome), (Some(tick.run), Some(TickOutcome::NotStarted)));
    assert_eq!(last.why.as_deref(), Some("scripted"));
}

#[tokio::test]
async fn request_that_no_daemon_saw_is_continued_by_the_next_daemon_of_the_folder() {
    let fixture = Fixture::new().await;
    fixture.run_until("first", async || !fixture.control.files().is_empty()).await;
    let file = WorkflowFile { file: "train.yaml".into(), home: "here".into(), texts: trainyard_core::Digest::of(b"t") };
    let elsewhere = WorkflowFile { home: "elsewhere".into(), ..file.clone() };
    let actor = fixture.control.actor("pages:ada");
    let ours = requests::request(fixture.store(), "train", actor, &file, &[]).await.unwrap();
    let actor = fixture.control.actor("pages:ada");
    requests::request(fixture.store(), "other", actor, &elsewhere, &[]).await.unwrap();
    // As after a crash, no call of `continue_requests` follows.
    fixture.run_until("second", async || !fixture.script.started.lock().unwrap().is_empty()).await;
    let started = fixture.script.started.lock().unwrap().clone();
    assert_eq!(started.iter().map(|request| &request.run).collect::<Vec<_>>(), [&ours.run]);
}

#[tokio::test]
async fn files_outside_of_the_folder_and_wrong_values_are_refused() {
    let fixture = Fixture::new().await;
    fixture.run_until("first", async || !fixture.control.files().is_empty()).await;
    for name in ["../train.yaml", "/etc/passwd", "trian.yaml", ""] {
        let error = fixture.control.start(name, Vec::new(), "pages:ada").await.unwrap_err();
        assert!(error.message.contains("there is no workflow file"), "{error}");
    }
    for params in [vec![], vec!["steps=0".to_string()], vec!["steps=x".to_string()], vec!["none=1".to_string()]] {
        let error = fixture.control.start("train.yaml", params, "pages:ada").await.unwrap_err();
        assert!(error.message.contains("does not compile with these values"), "{error}");
    }
    let preview = fixture.control.preview("train.yaml", &["steps=2".to_string()]).unwrap();
    assert_eq!(preview.plan.unwrap().workflow, "train");
    assert_eq!(preview.params.len(), 2);
    assert!(fixture.control.preview("train.yaml", &[]).unwrap().plan.unwrap_err().contains("`steps`"));
    assert!(ScheduleLog::open(fixture.store(), "train").await.unwrap().state().open.is_empty());
}
