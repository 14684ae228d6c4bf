//! Tests programs of a few lines of shell that respond correctly or misbehave in one way each.

use super::*;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use trainyard_core::attempt::LogLevel;
use trainyard_core::{Error, ErrorKind};

const PATIENCE: Duration = Duration::from_secs(60);
const READY: &str = r#"read -r hello; echo '{"type":"ready","protocol":1,"greeting":"hi"}';"#;
const HELLO: Hello<'static> = Hello { role: "reward", name: "", seed: 7 };

/// Returns a program that is ready and then processes every `$line`, whose id is `$id`.
fn each(work: &str) -> String {
    format!("{READY} while read -r line; do id=${{line#*:}}; id=${{id%%,*}}; {work}; done")
}

const RESPOND: &str = r#"echo "{\"id\":$id,\"result\":$id}""#;

fn options(script: &str) -> ProgramOptions {
    let command = ["sh", "-c", script].map(str::to_string).to_vec();
    ProgramOptions { command, timeout: "20s".into(), ..ProgramOptions::default() }
}

fn workers(options: &ProgramOptions) -> Arc<WorkerPool> {
    WorkerPool::start(options, HELLO, null_log()).unwrap()
}

fn call(workers: &WorkerPool, body: &Value) -> PendingProgramResponse {
    workers.call("score", body).unwrap()
}

fn wait(pending: &PendingProgramResponse) -> ProgramResult {
    pending.wait(PATIENCE).expect("a response in time")
}

fn outage(response: ProgramResult) -> Error {
    match response {
        Err(ProgramFault::Outage(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn with_causes(error: &Error) -> String {
    let causes: Vec<&str> = error.causes().collect();
    format!("{error}\n{}", causes.join("\n"))
}

#[test]
fn stop_command_runs_for_each_process_under_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let append = |file: &str| format!("echo \"$TRAINYARD_PROGRAM\" >> {}", folder.path().join(file).display());
    let script = format!("{}; {}", append("started"), each(RESPOND));
    let stop = ["sh", "-c", &append("stopped")].map(str::to_string).to_vec();
    let workers = workers(&ProgramOptions { workers: 2, stop, ..options(&script) });
    let pending: Vec<PendingProgramResponse> = (0..40).map(|n| call(&workers, &json!({"n": n}))).collect();
    pending.iter().for_each(|response| assert!(wait(response).is_ok()));
    drop((pending, workers));
    let names = |file: &str| {
        let text = std::fs::read_to_string(folder.path().join(file)).unwrap();
        let mut names: Vec<String> = text.lines().map(str::to_string).collect();
        names.sort();
        names
    };
    let started = names("started");
    assert_eq!(names("stopped"), started);
    assert!(started.iter().all(|name| name.starts_with("trainyard-")), "{started:?}");
    assert!(started.windows(2).all(|pair| pair[0] != pair[1]), "each process has its own name: {started:?}");
}

#[test]
fn descendants_in_their_own_session_end_with_a_program_that_crashed() {
    let folder = tempfile::tempdir().unwrap();
    let (begun, late) = (folder.path().join("begun"), folder.path().join("late"));
    // The first request ends the process, which leaves a daemon.
    let daemon = format!(
        "(setsid sh -c 'touch {}; sleep 2; touch {}' < /dev/null > /dev/null 2>&1 &)",
        begun.display(),
        late.display()
    );
    let wait_for_daemon = format!("while [ ! -e {} ]; do sleep 0.01; done", begun.display());
    let pool = workers(&options(&each(&format!("{daemon}; {wait_for_daemon}; exit 3"))));
    outage(wait(&call(&pool, &json!({"n": 1}))));
    drop(pool);
    assert!(begun.exists());
    std::thread::sleep(Duration::from_millis(2_500));
    assert!(!late.exists(), "the daemon outlived its program");
}

#[test]
fn several_processes_respond_to_many_requests() {
    let workers = workers(&ProgramOptions { workers: 3, ..options(&each(RESPOND)) });
    let pending: Vec<PendingProgramResponse> = (0..300).map(|n| call(&workers, &json!({"n": n}))).collect();
    for response in &pending {
        assert!(wait(response).unwrap().value.is_u64());
    }
    assert_eq!(wait(&workers.ready()).unwrap().value["greeting"], "hi");
}

#[test]
fn faults_of_program_are_reported_as_outages() {
    for (work, message) in [
        ("echo boom >&2; exit 3", "exited with status 3"),
        ("kill -9 $$", "was killed by signal 9"),
        (r#"printf '{"id":'; exit 0"#, r#"exited with status 0 in the middle of a line: `{"id":`"#),
        ("echo hello", "wrote a line that is not a response"),
        (r#"echo "{\"id\":$id}""#, "neither `result` nor `error`"),
        (r#"echo '{"id":99,"result":1}'"#, "answered request 99, which is not open"),
        ("yes x | tr -d '\\n'", "a line of more than 64 MiB"),
        ("exec >&-; sleep 1000", "closed its standard output"),
    ] {
        let workers = workers(&options(&each(work)));
        let error = outage(wait(&call(&workers, &json!({}))));
        assert_eq!(error.kind, ErrorKind::Retryable, "{work}: {error}");
        assert!(error.message.starts_with("reward `process` (sh -c "), "{error}");
        assert!(error.message.contains(message), "{work}: {error}");
        assert_eq!(with_causes(&error).contains("boom"), work.contains("boom"), "{error}");
        assert!(wait(&call(&workers, &json!({}))).is_err(), "{work}: the next request is sent too");
    }
}

#[test]
fn hanging_process_is_killed_with_descendants() {
    let script = each(r#"sleep 1000 & echo "$!" > child; wait"#);
    let logged = Arc::new(Mutex::new(String::new()));
    let sink = Arc::clone(&logged);
    let log: ProgramLog = Arc::new(move |_: LogLevel, line: &str| sink.lock().unwrap().push_str(line));
    let short = ProgramOptions { timeout: "300ms".into(), ..options(&format!("pwd >&2; {script}")) };
    let workers = WorkerPool::start(&short, HELLO, log).unwrap();
    let error = outage(wait(&call(&workers, &json!({}))));
    assert!(error.message.contains("took longer than 300ms for one request and was killed"), "{error}");
    let logged = logged.lock().unwrap().clone();
    let folder = logged.split("reward").next().unwrap().trim();
    let child = std::fs::read_to_string(Path::new(folder).join("child")).unwrap();
    // The kernel ends a killed process after `kill` returns.
    let status = || std::fs::read_to_string(format!("/proc/{}/status", child.trim())).unwrap_or_default();
    let has_ended = || status().is_empty() || status().contains("State:\tZ");
    assert!(
        (0..500).any(|_| has_ended() || {
            std::thread::sleep(Duration::from_millis(10));
            false
        }),
        "{}",
        status()
    );
}

#[test]
fn failed_start_is_reported_with_reason() {
    let cases: [(&[&str], &str); 7] = [
        (&["no-such-program-7"], "program `no-such-program-7` was not found"),
        (&["sh", "-c", "echo no module called x >&2; exit 1"], "no module called x"),
        (&["sh", "-c", "read -r hello; echo '{\"type\":\"ready\",\"protocol\":2}'"], "version 2"),
        (&["sh", "-c", "read -r hello; echo Loading…"], "its first line is not JSON: `Loading…`"),
        (&["sh", "-c", "exit 0"], "it exited with status 0"),
        (&["/etc/passwd"], "`/etc/passwd` is not executable"),
        (
            &["sh", "-c", r#"echo '{"type":"error","error":{"type":"LookupError","message":"no function"}}'"#],
            "LookupError: no function",
        ),
    ];
    for (command, message) in cases {
        let command = command.iter().map(|word| (*word).to_string()).collect();
        let workers = workers(&ProgramOptions { command, ..ProgramOptions::default() });
        let error = outage(wait(&call(&workers, &json!({}))));
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
        assert!(with_causes(&error).contains(message), "{message}: {}", with_causes(&error));
    }
}

#[test]
fn fatal_request_fails_alone() {
    let script = each(&format!("case $line in *poison*) exit 4;; esac; {RESPOND}"));
    let workers = workers(&ProgramOptions { workers: 2, ..options(&script) });
    let body = |n: i32| if n == 20 { json!({"x": "poison"}) } else { json!({"x": n}) };
    let pending: Vec<PendingProgramResponse> = (0..50).map(|n| call(&workers, &body(n))).collect();
    for (n, pending) in pending.iter().enumerate() {
        assert_eq!(wait(pending).is_ok(), n != 20, "{n}");
    }
}

#[test]
fn process_that_dies_once_is_restarted_without_loss() {
    let script = each(&format!("[ -e mark ] || {{ : > mark; exit 5; }}; {RESPOND}"));
    let workers = workers(&options(&script));
    let pending: Vec<PendingProgramResponse> = (0..10).map(|n| call(&workers, &json!({"n": n}))).collect();
    assert!(pending.iter().all(|pending| wait(pending).is_ok()));
    assert_eq!(wait(&pending[9]).unwrap().generation, 2);
}

#[test]
fn process_that_ends_while_idle_is_restarted() {
    let script = format!(r#"{READY} for n in 1 2; do read -r line; echo "{{\"id\":$n,\"result\":$n}}"; done"#);
    let workers = workers(&options(&script));
    // Ids continue in the next process, so the first response of the second one matches no request.
    assert_eq!(wait(&call(&workers, &json!({}))).unwrap().value, 1);
    assert_eq!(wait(&call(&workers, &json!({}))).unwrap().value, 2);
    assert!(wait(&call(&workers, &json!({}))).is_err());
}

#[test]
fn exceptions_are_not_outages() {
    let error = r#"{\"type\":\"ValueError\",\"message\":\"bad\",\"traceback\":\"line 1\"}"#;
    let workers = workers(&options(&each(&format!(r#"echo "{{\"id\":$id,\"error\":{error}}}""#))));
    let Err(ProgramFault::Exception(raised)) = wait(&call(&workers, &json!({}))) else { panic!("no exception") };
    assert_eq!(raised.to_string(), "ValueError: bad");
    let error = raised.error();
    assert_eq!((error.kind, error.causes().next()), (ErrorKind::Data, Some("line 1")));
}

#[test]
fn state_is_lost_with_its_process() {
    let script = each(&format!("case $line in *end*) exit 0;; esac; {RESPOND}"));
    let workers = workers(&ProgramOptions { workers: 2, ..options(&script) });
    let on = |life, body: Value| wait(&workers.call_on(1, life, "step", &body).unwrap());
    let life = on(None, json!({})).unwrap().generation;
    assert_eq!(on(Some(life), json!({})).unwrap().generation, life);
    assert!(matches!(on(Some(life), json!({"x": "end"})), Err(ProgramFault::Lost(_))));
    assert!(matches!(on(Some(life), json!({})), Err(ProgramFault::Lost(_))));
    assert_eq!(on(None, json!({})).unwrap().generation, life + 1);
}

#[test]
fn environment_has_only_named_variables() {
    let show = r#"echo "{\"id\":$id,\"result\":[\"$CARGO_MANIFEST_DIR\",\"$PATH\",\"$TRAINYARD_PROTOCOL\"]}""#;
    for named in [false, true] {
        let env = if named { vec!["CARGO_MANIFEST_DIR".to_string()] } else { Vec::new() };
        let workers = workers(&ProgramOptions { env, ..options(&each(show)) });
        let received = wait(&call(&workers, &json!({}))).unwrap().value;
        assert_eq!(received[0].as_str().unwrap().is_empty(), !named);
        assert_eq!((received[1].as_str().unwrap().is_empty(), &received[2]), (false, &json!("1")));
    }
}

#[test]
fn hello_has_options_and_processes_end_with_pool() {
    let script = r#"read -r hello; echo '{"type":"ready","protocol":1}'; read -r line;
        echo "{\"id\":1,\"result\":[$hello,$$]}"; trap '' TERM; while :; do sleep 0.1; done"#;
    let given = ProgramOptions { options: json!({"limit": 3}), ..options(script) };
    let workers = workers(&given);
    let received = wait(&call(&workers, &json!({}))).unwrap().value;
    let expected =
        json!({"type": "hello", "protocol": 1, "role": "reward", "name": "", "options": {"limit": 3}, "seed": 7});
    assert_eq!(received[0], expected);
    let pid = received[1].as_u64().unwrap();
    assert!(Path::new(&format!("/proc/{pid}")).exists());
    let unanswered = call(&workers, &json!({}));
    drop(workers);
    assert!(!Path::new(&format!("/proc/{pid}")).exists(), "it ignored the end of its input and was killed");
    assert!(outage(wait(&unanswered)).message.contains("stopped before it responded"));
}

#[test]
fn standard_error_is_logged() {
    let logged = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&logged);
    let log: ProgramLog =
        Arc::new(move |level: LogLevel, line: &str| sink.lock().unwrap().push((level, line.to_string())));
    let workers = WorkerPool::start(&options(&each(&format!("echo working >&2; {RESPOND}"))), HELLO, log).unwrap();
    wait(&call(&workers, &json!({}))).unwrap();
    drop(workers);
    assert_eq!(logged.lock().unwrap()[0], (LogLevel::Info, "working".to_string()));
}
