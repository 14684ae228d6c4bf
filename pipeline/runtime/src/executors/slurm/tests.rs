//! Tests the executor against recorded outputs: the tools that it calls, and the results that it derives from their
//! output.

use super::tools::{SlurmCommand, SlurmCommandOutput, SlurmTools};
use super::*;
use crate::executors::AttemptReporter;
use futures::future::ready;
use serde_json::json;
use std::collections::VecDeque;
use trainyard_core::ErrorKind;
use trainyard_core::attempt::AttemptMessage;
use trainyard_core::event::AttemptOutcome;
use trainyard_engine::{Grant, MachineShare};
use trainyard_store::{Store, StoreOptions};

/// Tools that return recorded outputs in order; the last output of a tool repeats.
#[derive(Default)]
struct RecordedTools {
    outputs: Mutex<BTreeMap<&'static str, VecDeque<SlurmCommandOutput>>>,
    calls: Mutex<Vec<SlurmCommand>>,
}

impl SlurmTools for RecordedTools {
    fn call(&self, call: SlurmCommand) -> BoxFuture<'_, Result<SlurmCommandOutput>> {
        let program = call.program;
        self.calls.lock().unwrap().push(call);
        let mut outputs = self.outputs.lock().unwrap();
        let output = match outputs.get_mut(program) {
            None => Err(Error::invalid(format!("there is no `{program}` on this machine"))),
            Some(queue) if queue.len() > 1 => Ok(queue.pop_front().unwrap()),
            Some(queue) => Ok(queue.front().cloned().unwrap()),
        };
        Box::pin(ready(output))
    }
}

impl RecordedTools {
    fn prints(self: &Arc<Self>, program: &'static str, stdout: &str) -> &Arc<Self> {
        self.outputs(program, SlurmCommandOutput { success: true, stdout: stdout.into(), stderr: String::new() })
    }
    fn fails(self: &Arc<Self>, program: &'static str, stderr: &str) -> &Arc<Self> {
        self.outputs(program, SlurmCommandOutput { success: false, stdout: String::new(), stderr: stderr.into() })
    }
    fn outputs(self: &Arc<Self>, program: &'static str, output: SlurmCommandOutput) -> &Arc<Self> {
        self.outputs.lock().unwrap().entry(program).or_default().push_back(output);
        self
    }
    /// Returns the arguments of the calls of a tool.
    fn calls_of(&self, program: &str) -> Vec<String> {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|call| call.program == program).map(|call| call.arguments.join(" ")).collect()
    }
    fn scripts(&self) -> Vec<String> {
        let calls = self.calls.lock().unwrap();
        let scripts = calls.iter().filter(|call| call.program == "sbatch");
        scripts.map(|call| String::from_utf8(call.input.clone()).unwrap()).collect()
    }
}

struct SlurmReportStub;

impl AttemptReporter for SlurmReportStub {
    fn message(&self, _: AttemptMessage) {}
    fn raw(&self, _: &str) {}
    fn waits(&self, _: Option<&str>) {}
}

async fn store() -> Store {
    Store::open("memory://", StoreOptions::default()).await.unwrap()
}

fn task(store: &Store, stage: &str) -> AttemptTask {
    let spec = json!({
        "format": 1, "workflow": "quick start", "run": "20261122-120000-0000000", "stage": stage, "attempt": 1,
        "stage_digest": "0".repeat(64), "kind": "noop", "kind_version": 1, "config": {}, "inputs": {}, "outputs": {},
        "resources": {"cpus": 4}, "checkpoints": ""
    });
    let share = MachineShare { machine: "gpus-1".into(), cpus: 4, memory: (3 << 30) + 1, gpus: vec![2, 5] };
    AttemptTask {
        spec: Arc::new(serde_json::from_value(spec).unwrap()),
        grant: Grant::new("gpus", SlurmExecutor::NAME, vec![share]),
        store: store.clone(),
        folder: format!("runs/2026-11/r/attempts/{stage}/1"),
        timeout: Some(Duration::from_secs(3_601)),
        reports: Arc::new(SlurmReportStub),
    }
}

/// Creates an executor, and the folder for its logs.
fn slurm(tools: &Arc<RecordedTools>, options: serde_json::Value) -> (SlurmExecutor, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let options =
        SlurmOptions { log_folder: Some(folder.path().join("100%/logs")), ..serde_json::from_value(options).unwrap() };
    (SlurmExecutor::with_tools(Launcher::new("/opt/trainyard"), options, tools.clone()).unwrap(), folder)
}

fn handles(texts: &[&str]) -> Vec<Handle> {
    texts.iter().map(|text| Handle((*text).into())).collect()
}

const OFF: &str = "Slurm accounting storage is disabled\n";
const AWAY: &str = "squeue: error: Unable to contact slurm controller (connect failure)\n";

#[tokio::test]
async fn task_becomes_a_job_with_its_resources() {
    let (store, tools) = (store().await, Arc::new(RecordedTools::default()));
    tools.prints("squeue", "").prints("sbatch", "123\n");
    let options = json!({
        "partition": "gpu", "account": "lab", "qos": "long", "constraint": "h100&nvlink", "gres": "gpu:h100",
        "exclude": "bad[1-2]", "extra": ["--exclusive"], "setup": "module load cuda"
    });
    let (slurm, folder) = slurm(&tools, options);
    let task = task(&store, "rl[seed=1]");
    let outputs = slurm.submit(std::slice::from_ref(&task)).await;
    assert_eq!(outputs, [Ok(Handle("123".into()))]);
    let logs = folder.path().join("100%%/logs");
    let expected = format!(
        "--parsable --job-name=quick_start/rl[seed=1] --comment={} --output={}/%j.log --no-requeue --export=ALL \
         --nodes=1 --ntasks-per-node=1 --cpus-per-task=4 --mem=3073M --gres=gpu:h100:2 --time=66 --partition=gpu \
         --account=lab --qos=long --constraint=h100&nvlink --exclude=bad[1-2] --exclusive",
        task.key(),
        logs.display()
    );
    assert_eq!(tools.calls_of("sbatch"), [expected]);
    let script = &tools.scripts()[0];
    assert!(script.contains("module load cuda\n"), "{script}");
    assert!(script.contains(&format!("trainyard_url='{}'\n", task.url())), "{script}");
    assert!(script.ends_with("exec '/opt/trainyard' 'attempt' \"$trainyard_url\"\n"), "{script}");
    assert!(!script.contains("CUDA_VISIBLE_DEVICES"), "the GPUs are those that Slurm gives: {script}");
    assert!(folder.path().join("100%/logs").is_dir());
}

#[tokio::test]
async fn unset_options_use_slurm_defaults() {
    let (store, tools) = (store().await, Arc::new(RecordedTools::default()));
    tools.prints("squeue", "").prints("sbatch", "123;cluster\n");
    let (slurm, _folder) = slurm(&tools, json!({"time_limit": "90s"}));
    let mut plain = task(&store, "a");
    plain.timeout = None;
    plain.grant.shares[0] = MachineShare { machine: "m".into(), cpus: 1, memory: 0, gpus: vec![] };
    plain.grant.shares.push(plain.grant.shares[0].clone());
    assert_eq!(slurm.submit(&[plain]).await, [Ok(Handle("123".into()))]);
    let arguments = &tools.calls_of("sbatch")[0];
    assert!(arguments.contains("--nodes=2") && arguments.ends_with("--cpus-per-task=1 --time=2"), "{arguments}");
}

#[tokio::test]
async fn equal_tasks_become_one_array() {
    let (store, tools) = (store().await, Arc::new(RecordedTools::default()));
    tools.prints("squeue", "").prints("sbatch", "7\n").prints("sbatch", "8\n").prints("sbatch", "9\n");
    let (slurm, _folder) = slurm(&tools, json!({}));
    let mut tasks: Vec<AttemptTask> = (0..61).map(|n| task(&store, &format!("rl[seed={n}]"))).collect();
    tasks[5].timeout = None;
    let outputs = slurm.submit(&tasks).await;
    let expected = |n: usize| match n {
        0..5 => format!("7_{n}"),
        5 => "8".into(),
        6..60 => format!("7_{}", n - 1),
        _ => "9".into(),
    };
    for (n, output) in outputs.into_iter().enumerate() {
        assert_eq!(output.unwrap().0, expected(n), "{n}");
    }
    let submissions = tools.calls_of("sbatch");
    assert!(
        submissions[0].contains("--array=0-58") && submissions[0].contains("--job-name=quick_start/rl --"),
        "{submissions:?}"
    );
    assert!(submissions[0].contains("/%A_%a.log") && !submissions[1].contains("--array"), "{submissions:?}");
    assert!(tools.scripts()[0].contains(&format!("58) trainyard_url='{}' ;;", tasks[59].url())));
}

#[tokio::test]
async fn submitted_tasks_are_not_submitted_again() {
    let (store, tools) = (store().await, Arc::new(RecordedTools::default()));
    let tasks: Vec<AttemptTask> = ["a", "b", "c", "d"].iter().map(|stage| task(&store, stage)).collect();
    let keys: Vec<String> = tasks.iter().map(AttemptTask::key).collect();
    let queue = format!(
        "40|FAILED|BadConstraints||N/A|low|{}\n41_[0-1]|PENDING|Resources||N/A|low|{}\n42|COMPLETED|None|n1||low|{}\n",
        keys[3],
        comment::comment(&keys[..2]),
        keys[2]
    );
    tools.prints("squeue", &queue).prints("sbatch", "50\n");
    let (slurm, _folder) = slurm(&tools, json!({}));
    let twice = [tasks.as_slice(), &tasks[3..]].concat();
    let found: Vec<String> = slurm.submit(&twice).await.into_iter().map(|output| output.unwrap().0).collect();
    assert_eq!(found, ["41_0", "41_1", "42", "50", "50"]);
    assert_eq!(tools.calls_of("sbatch").len(), 1, "what Slurm refused was no job, and a task given twice is one");
    assert_eq!(tools.calls_of("squeue").len(), 1);
}

#[tokio::test]
async fn unreachable_controller_is_retryable() {
    let (store, tools) = (store().await, Arc::new(RecordedTools::default()));
    tools.fails("squeue", AWAY).prints("squeue", "");
    tools.fails("sbatch", "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation");
    tools.prints("sbatch", "no number\n").prints("sbatch", "5\n");
    let (slurm, _folder) = slurm(&tools, json!({}));
    let task = task(&store, "a");
    let one = std::slice::from_ref(&task);
    for _ in 0..3 {
        let error = slurm.submit(one).await.remove(0).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Retryable, "{error}");
    }
    assert_eq!(tools.calls_of("sbatch").len(), 2, "without a look at the queue nothing is submitted");
    assert_eq!(slurm.submit(one).await, [Ok(Handle("5".into()))]);
}

#[tokio::test]
async fn refusal_applies_to_every_task_of_the_array() {
    let (store, tools) = (store().await, Arc::new(RecordedTools::default()));
    let tasks = [task(&store, "a"), task(&store, "b")];
    tools.prints("squeue", "");
    tools.fails("sbatch", "sbatch: error: Batch job submission failed: Invalid feature specification\n");
    let (executor, _folder) = slurm(&tools, json!({"constraint": "b200"}));
    for output in executor.submit(&tasks).await {
        let error = output.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.message.contains("Invalid feature specification"), "{error}");
    }
    assert_eq!(tools.calls_of("sbatch").len(), 1);

    let tools = Arc::new(RecordedTools::default());
    tools.prints("squeue", "");
    tools.fails("sbatch", "sbatch: error: Batch job submission failed: Invalid job array specification\n");
    tools.prints("sbatch", "5\n").prints("sbatch", "6\n");
    let (executor, _folder) = slurm(&tools, json!({}));
    let found: Vec<String> = executor.submit(&tasks).await.into_iter().map(|output| output.unwrap().0).collect();
    assert_eq!(found, ["5", "6"]);
}

#[tokio::test]
async fn missing_slurm_is_reported_with_help() {
    let (store, tools) = (store().await, Arc::new(RecordedTools::default()));
    let (slurm, _folder) = slurm(&tools, json!({}));
    let error = slurm.submit(&[task(&store, "a")]).await.remove(0).unwrap_err();
    assert_eq!((error.kind, error.message.as_str()), (ErrorKind::Invalid, "there is no `squeue` on this machine"));
    assert_eq!(slurm.poll(&handles(&["1"])).await.unwrap_err().kind, ErrorKind::Invalid);
}

/// Returns the outcome of an ended state; `None` for any other state.
fn outcome(state: &AttemptState) -> Option<AttemptOutcome> {
    match state {
        AttemptState::Ended(ended) => Some(ended.outcome),
        _ => None,
    }
}

#[tokio::test]
async fn polling_takes_one_squeue_and_one_sacct() {
    use AttemptOutcome::{Cancelled, Failed, Lost, Succeeded};
    let tools = Arc::new(RecordedTools::default());
    tools.prints("squeue", include_str!("recorded/squeue.txt")).prints("sacct", include_str!("recorded/sacct.txt"));
    tools.prints("scancel", "");
    let (slurm, _folder) = slurm(&tools, json!({}));
    let jobs = ["1", "2", "6_0", "6_1", "6_3", "6_5", "9", "12", "17", "20"];
    let states = slurm.poll(&handles(&jobs)).await.unwrap();
    let outcomes: Vec<_> = states.iter().map(outcome).collect();
    let expected = [Failed, Succeeded, Cancelled, Lost].map(Some).into_iter().chain([None, None]);
    let expected: Vec<_> = expected.chain([Failed, Failed, Lost].map(Some)).chain([None]).collect();
    assert_eq!(outcomes, expected);
    assert_eq!(states[4], AttemptState::Started);
    assert_eq!(tools.calls_of("sacct").len(), 1);
    assert!(tools.calls_of("sacct")[0].ends_with("--jobs=1,6"), "{:?}", tools.calls_of("sacct"));
    assert_eq!(tools.calls_of("squeue").len(), 1);
    assert_eq!(tools.calls_of("scancel"), ["12"], "what can never start");
    assert_eq!(tools.calls_of("scontrol"), [""; 0]);
}

#[tokio::test]
async fn exit_codes_come_from_the_controller_without_accounting() {
    let tools = Arc::new(RecordedTools::default());
    tools.prints("squeue", "1|FAILED|NonZeroExitCode|node1||low|\n").prints("squeue", "");
    tools.fails("sacct", OFF).prints("scontrol", include_str!("recorded/scontrol.txt"));
    let (slurm, _folder) = slurm(&tools, json!({}));
    let one = handles(&["1"]);
    let AttemptState::Ended(ended) = slurm.poll(&one).await.unwrap().remove(0) else { panic!() };
    assert!(ended.error.unwrap().message.contains("exit code 7"));
    let looks = [slurm.poll(&one).await, slurm.poll(&one).await, slurm.poll(&one).await];
    let outcomes = looks.map(|states| outcome(&states.unwrap()[0]));
    assert_eq!(outcomes, [None, None, Some(AttemptOutcome::Lost)], "it was forgotten");
}

#[tokio::test]
async fn no_job_is_lost_while_accounting_is_unavailable() {
    let tools = Arc::new(RecordedTools::default());
    tools.prints("squeue", "");
    tools.fails("sacct", "sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection");
    let (slurm, _folder) = slurm(&tools, json!({}));
    for _ in 0..9 {
        assert_eq!(slurm.poll(&handles(&["1"])).await.unwrap(), [AttemptState::Pending { why: None }]);
    }
}

#[tokio::test]
async fn job_that_cannot_be_removed_stays_pending() {
    let tools = Arc::new(RecordedTools::default());
    tools.prints("squeue", "1|PENDING|PartitionTimeLimit||N/A|low|\n");
    tools.fails("scancel", "scancel: error: Kill job error on job id 1: Unable to contact slurm controller");
    tools.prints("scancel", "");
    let (slurm, _folder) = slurm(&tools, json!({}));
    let one = handles(&["1"]);
    let first = slurm.poll(&one).await.unwrap();
    assert!(matches!(&first[0], AttemptState::Pending { why: Some(why) } if why.contains("removed")), "{first:?}");
    assert_eq!(outcome(&slurm.poll(&one).await.unwrap()[0]), Some(AttemptOutcome::Failed));
}

#[tokio::test]
async fn cancel_terminates_running_and_removes_pending_jobs() {
    let tools = Arc::new(RecordedTools::default());
    tools.prints("squeue", "6_[4-5]|PENDING|Resources||N/A|low|\n6_0|RUNNING|None|n1||low|\n");
    tools.prints("scancel", "");
    let (slurm, _folder) = slurm(&tools, json!({}));
    for (job, control) in
        [("6_4", Control::Cancel), ("6_0", Control::Run), ("6_0", Control::Cancel), ("6_0", Control::Kill)]
    {
        slurm.cancel(&Handle(job.into()), control).await.unwrap();
    }
    assert_eq!(tools.calls_of("scancel"), ["6_4", "--batch --signal=TERM 6_0", "6_0"]);
    let over = Arc::new(RecordedTools::default());
    over.prints("squeue", "")
        .fails("scancel", "scancel: error: Kill job error on job id 9: Invalid job id specified\n");
    let (executor, _folder) = self::slurm(&over, json!({}));
    executor.cancel(&Handle("9".into()), Control::Kill).await.unwrap();
    over.fails("scancel", "scancel: error: Kill job error on job id 9: Access/permission denied\n");
    executor.cancel(&Handle("9".into()), Control::Kill).await.unwrap();
    let error = executor.cancel(&Handle("9".into()), Control::Kill).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Retryable, "{error}");
}

#[tokio::test]
async fn reattach_finds_a_job_by_handle_or_key() {
    let store = store().await;
    let tasks = [task(&store, "a"), task(&store, "b"), task(&store, "c")];
    let keys: Vec<String> = tasks.iter().map(AttemptTask::key).collect();
    let tools = Arc::new(RecordedTools::default());
    let comment = comment::comment(&keys[..2]);
    tools.prints("squeue", &format!("6_0|RUNNING|None|n1||low|{comment}\n7|RUNNING|None|n1||low|other\n"));
    tools.prints("sacct", &format!("6_1|COMPLETED|0:0|0:0|n1|{comment}\n8|COMPLETED|0:0|0:0|n1|\n"));
    let (slurm, _folder) = slurm(&tools, json!({}));
    let find = async |task: usize, handle: Option<&str>| {
        let handle = handle.map(|text| Handle(text.into()));
        slurm.reattach(&tasks[task], handle.as_ref()).await.unwrap().map(|found| found.0)
    };
    assert_eq!(find(0, Some("6_0")).await.as_deref(), Some("6_0"));
    assert_eq!(find(0, None).await.as_deref(), Some("6_0"));
    assert_eq!(find(1, Some("6_1")).await.as_deref(), Some("6_1"), "accounting knows it");
    assert_eq!(find(1, None).await.as_deref(), Some("6_1"), "and its comment");
    assert_eq!(find(2, Some("8")).await.as_deref(), Some("8"), "accounting keeps no comments");
    assert_eq!(find(2, None).await, None);
    assert_eq!(find(2, Some("7")).await, None, "the number is that of another job");
    assert_eq!(find(2, Some("6_0")).await, None);

    let off = Arc::new(RecordedTools::default());
    off.prints("squeue", "").fails("sacct", OFF).fails("sacct", "Connection refused");
    let (executor, _folder) = self::slurm(&off, json!({}));
    assert_eq!(executor.reattach(&tasks[0], None).await, Ok(None));
    assert_eq!(executor.reattach(&tasks[0], None).await.unwrap_err().kind, ErrorKind::Retryable);
}

#[tokio::test]
async fn output_tail_and_wait_reasons_are_shown() {
    let tools = Arc::new(RecordedTools::default());
    tools.prints("squeue", include_str!("recorded/squeue.txt")).prints("sacct", include_str!("recorded/sacct.txt"));
    let (slurm, folder) = slurm(&tools, json!({}));
    let logs = folder.path().join("100%/logs");
    std::fs::create_dir_all(&logs).unwrap();
    std::fs::write(logs.join("6_0.log"), format!("{}end\n", "x\n".repeat(100_000))).unwrap();
    std::fs::write(logs.join("2.log"), "").unwrap();
    let text = slurm.logs(&Handle("6_0".into())).await.unwrap();
    assert!(text.len() == 64 << 10 && text.ends_with("x\nend\n"));
    assert_eq!(slurm.logs(&Handle("5".into())).await.unwrap(), "");
    slurm.poll(&handles(&["2", "6_0"])).await.unwrap();
    assert!(!logs.join("2.log").exists() && logs.join("6_0.log").exists());

    let explained = async |job: &str| slurm.explain(&Handle(job.into())).await.unwrap();
    assert_eq!(
        explained("20").await.unwrap(),
        "Slurm job 20 in partition low waits: Resources (it is next, and waits until nodes are free); \
         Slurm expects it to start at 2026-11-22T13:15:35"
    );
    assert_eq!(explained("6_3").await.unwrap(), "Slurm job 6_3 in partition low on node1 runs");
    assert!(explained("1").await.unwrap().contains("on node1 is over: Slurm job 1 ended with exit code 7"));
    assert_eq!(explained("99").await, None);
    assert!(slurm.explain(&Handle("pod-1".into())).await.is_err());
}
