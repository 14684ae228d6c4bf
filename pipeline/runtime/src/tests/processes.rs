//! Tests attempts as real `sh` processes: outcomes, logs, cancelling, and the kill of the process tree.

use super::{CANCELLED, FAILED, SUCCEEDED, Watcher, context, inside, key, node, options, plan};
use crate::executors::{ExecutorContext, Executors, Launcher, kinds};
use crate::slots::{SlotHolder, Slots};
use crate::{RunContext, RunSummary, run};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use trainyard_core::attempt::{AttemptMessage, LogRecord};
use trainyard_core::event::{AttemptOutcome, Event};
use trainyard_core::{Error, ErrorKind};
use trainyard_engine::{MachinePool, MachineShare};
use trainyard_spec::plan::PlanNode;
use trainyard_store::{AttemptStream, Store, StoreOptions};

/// Reads the spec and stores a result, like an attempt.
pub const SUCCEED: &str = r#"
store=${1%%#*}; store=${store#file://}; folder="$store/${1#*#}"
digest=$(sed 's/.*"stage_digest":"\([0-9a-f]*\)".*/\1/' "$folder/spec.json")
run=$(sed 's/.*"run":"\([0-9a-f-]*\)".*/\1/' "$folder/spec.json")
head='"format":1,"stage":"a","attempt":1'
rest='"outputs":{},"metrics":{"loss":0.5},"measured":{}'
printf '{%s,"run":"%s","stage_digest":"%s",%s}' "$head" "$run" "$digest" "$rest" > "$folder/result.json"
echo '{"type":"result"}'
"#;

pub struct Bench {
    pub folder: TempDir,
    pub store: Store,
    pub watcher: Arc<Watcher>,
}

impl Bench {
    pub async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().join("store").to_str().unwrap(), StoreOptions::default()).await.unwrap();
        Self { folder, store, watcher: Arc::new(Watcher::default()) }
    }
    pub fn launcher(&self, script: &str) -> Launcher {
        Launcher {
            program: "sh".into(),
            arguments: vec!["-c".into(), script.into(), "attempt".into()],
            env: vec![("TEST_FOLDER".into(), self.folder.path().into())],
        }
    }
    fn context(&self, script: &str) -> RunContext {
        let launcher = self.launcher(script);
        context(&self.store, local(launcher, Some(self.slots()), &json!({})), &self.watcher)
    }
    /// Returns slots shared by every run of this bench.
    pub fn slots(&self) -> Slots {
        let machine = context(&self.store, Executors::default(), &self.watcher).pools[0].machines[0].clone();
        Slots::new(self.folder.path().join("slots"), machine)
    }
    async fn run(&self, script: &str, stage: PlanNode) -> RunSummary {
        run(options(), plan(vec![stage]), self.context(script)).await.unwrap()
    }
    async fn log(&self, summary: &RunSummary) -> String {
        let (log, _) = self.store.read_chunks(&summary.run, &key("a"), 1, AttemptStream::Log, 0).await.unwrap();
        String::from_utf8(log).unwrap().lines().map(|line| LogRecord::parse(line).text + "\n").collect()
    }
}

/// Creates the executor `local` for the pool `local`.
pub fn local(launcher: Launcher, slots: Option<Slots>, options: &Value) -> Executors {
    let launching = ExecutorContext { pool: "local".into(), launcher, slots };
    Executors::new([("local".to_string(), kinds()[0].build(&launching, options).unwrap())])
}

/// Builds a stage without outputs, so that a shell script can write the result.
pub fn stage() -> PlanNode {
    let mut stage = node("a", &[]);
    stage.outputs.clear();
    stage
}

pub fn end_of(summary: &RunSummary) -> (AttemptOutcome, Error) {
    let attempt = summary.view.stage(&key("a")).unwrap().attempts.last().unwrap().clone();
    (attempt.outcome.unwrap(), attempt.error.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_publishes_and_output_is_logged() {
    let bench = Bench::new().await;
    let talk = r#"
    echo plain; echo careful >&2; echo "threads $RAYON_NUM_THREADS"
    echo '{"type":"progress","done":1,"total":2,"unit":"steps"}'"#;
    let summary = bench.run(&format!("{talk}\n{SUCCEED}"), stage()).await;
    assert_eq!(summary.ending, SUCCEEDED, "{:?}", summary.view);
    assert_eq!(summary.view.stage(&key("a")).unwrap().metrics["loss"], 0.5);
    let log = bench.log(&summary).await;
    assert!(log.contains("plain\n") && log.contains("careful\n") && log.contains("threads 1\n"), "{log}");
    assert!(
        bench.watcher.messages.lock().unwrap().iter().any(|m| matches!(m, AttemptMessage::Progress { done: 1, .. }))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failures_have_error_kinds() {
    let cases = [
        (
            r#"echo '{"type":"error","error":{"kind":"data","message":"row 7 is damaged"}}'; exit 1"#,
            AttemptOutcome::Failed,
            ErrorKind::Data,
            "row 7",
        ),
        ("echo oops >&2; exit 3", AttemptOutcome::Failed, ErrorKind::Bug, "ended with code 3"),
        ("exit 0", AttemptOutcome::Lost, ErrorKind::Lost, "without a result"),
        ("kill -9 $$", AttemptOutcome::Lost, ErrorKind::Lost, "signal 9"),
        ("kill -11 $$", AttemptOutcome::Failed, ErrorKind::Bug, "crashed (signal 11)"),
        (r#"echo '{"type":"result"}'"#, AttemptOutcome::Lost, ErrorKind::Lost, "without a result"),
    ];
    for (script, outcome, kind, text) in cases {
        let bench = Bench::new().await;
        let (found, error) = end_of(&bench.run(script, stage()).await);
        assert_eq!((found, error.kind), (outcome, kind), "{script}: {error}");
        assert!(error.message.contains(text), "{script}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_program_is_lost() {
    let bench = Bench::new().await;
    let mut context = bench.context("");
    context.executors = local(Launcher::new("/no/such/program"), None, &json!({}));
    let (outcome, error) = end_of(&run(options(), plan(vec![stage()]), context).await.unwrap());
    assert_eq!(outcome, AttemptOutcome::Lost);
    assert!(error.message.contains("/no/such/program"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrapper_program_may_start_the_attempt() {
    let bench = Bench::new().await;
    let script = format!("echo \"$BEHIND $TEST_FOLDER\"\n{SUCCEED}");
    let launcher = bench.launcher(&script).wrapped_in("env", &["BEHIND=another"]);
    let mut context = bench.context("");
    context.executors = local(launcher, None, &json!({}));
    let summary = run(options(), plan(vec![stage()]), context).await.unwrap();
    assert_eq!(summary.ending, SUCCEEDED, "{:?}", summary.view);
    let log = bench.log(&summary).await;
    assert!(log.contains(&format!("another {}\n", bench.folder.path().display())), "{log}");
}

/// Starts a child, and a grandchild in a separate session that lost its parent; both write their process ids.
#[cfg(target_os = "linux")]
pub const FAMILY: &str = r#"
sleep 300 & echo $! > "$TEST_FOLDER/child"
(setsid sh -c 'echo $$ > "$TEST_FOLDER/runaway"; exec sleep 300' > /dev/null 2>&1 &)
while [ ! -s "$TEST_FOLDER/runaway" ]; do sleep 0.01; done
"#;

#[cfg(target_os = "linux")]
pub fn is_alive(bench: &Bench, name: &str) -> bool {
    let pid = std::fs::read_to_string(bench.folder.path().join(name)).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timeout_kills_the_process_tree() {
    let bench = Bench::new().await;
    let mut stage = stage();
    stage.timeout = Some(Duration::from_millis(500));
    let (outcome, error) = end_of(&bench.run(&format!("{FAMILY} trap '' TERM; sleep 300"), stage).await);
    assert_eq!((outcome, error.kind), (AttemptOutcome::TimedOut, ErrorKind::Retryable));
    assert!(!is_alive(&bench, "child") && !is_alive(&bench, "runaway"));
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leftover_processes_are_killed() {
    let bench = Bench::new().await;
    let summary = bench.run(&format!("{FAMILY} {SUCCEED}"), stage()).await;
    assert_eq!(summary.ending, SUCCEEDED);
    assert!(!is_alive(&bench, "child") && !is_alive(&bench, "runaway"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancel_is_requested_before_the_kill() {
    let bench = Bench::new().await;
    let options = options();
    let (interrupt, watcher) = (options.interrupt.clone(), bench.watcher.clone());
    tokio::spawn(async move {
        while !watcher
            .messages
            .lock()
            .unwrap()
            .iter()
            .any(|m| matches!(m, AttemptMessage::Log { text, .. } if text == "ready"))
        {
            tokio::task::yield_now().await;
        }
        interrupt.raise();
    });
    let script = r#"echo ready; read line; echo "heard $line"; exit 0"#;
    let summary = run(options, plan(vec![stage()]), bench.context(script)).await.unwrap();
    assert_eq!(summary.ending, CANCELLED);
    assert!(bench.log(&summary).await.contains("heard cancel"));
    let events = bench.watcher.events.lock().unwrap();
    assert!(events.iter().any(|r| matches!(r.event, Event::AttemptEnded { outcome: AttemptOutcome::Cancelled, .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_of_one_user_share_slots() {
    let bench = Bench::new().await;
    let script = r#"
    if ! mkdir "$TEST_FOLDER/busy" 2> /dev/null; then touch "$TEST_FOLDER/overlap"; fi
    sleep 0.3; rmdir "$TEST_FOLDER/busy"; exit 1"#;
    let mut whole = stage();
    whole.resources[0].cpus = Some(2);
    let mut other = whole.clone();
    other.key = key("b");
    let (first, second) = tokio::join!(run(options(), plan(vec![whole]), bench.context(script)), async {
        // One process can execute both runs, since each holding has a separate lock.
        run(options(), plan(vec![other]), bench.context(script)).await
    });
    assert_eq!((first.unwrap().ending, second.unwrap().ending), (FAILED, FAILED));
    assert!(!bench.folder.path().join("overlap").exists(), "both held the whole machine at once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_slots_is_reported() {
    let bench = Bench::new().await;
    let share = MachineShare { machine: "this".into(), cpus: 2, memory: 0, gpus: Vec::new() };
    let held = bench.slots().try_take(&share, &SlotHolder::default()).unwrap().unwrap();
    let summary = run(options(), plan(vec![inside("trivial", &[])]), bench.context("exit 1")).await.unwrap();
    assert_eq!(summary.ending, SUCCEEDED);
    let watcher = bench.watcher.clone();
    tokio::spawn(async move {
        while !watcher.waits.lock().unwrap().iter().any(|why| why.contains("slots of this machine, held by")) {
            tokio::task::yield_now().await;
        }
        drop(held);
    });
    assert_eq!(bench.run(SUCCEED, stage()).await.ending, SUCCEEDED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn oversized_grant_fails_immediately() {
    let bench = Bench::new().await;
    let mut context = bench.context(SUCCEED);
    context.pools = vec![MachinePool::of_this_machine(64, 1 << 30, Vec::new())];
    let mut large = stage();
    large.resources[0].cpus = Some(64);
    let (outcome, error) = end_of(&run(options(), plan(vec![large]), context).await.unwrap());
    assert_eq!((outcome, error.kind), (AttemptOutcome::Failed, ErrorKind::Invalid));
    assert!(error.message.contains("needs 64 CPUs; it has 2"), "{error}");
}
