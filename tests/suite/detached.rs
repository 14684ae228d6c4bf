//! An attempt needs nothing but its URL: its spec, requests, logs and results are all in its folder of the store.
//!
//! The tests act as the executor: they put a spec into the store and start the process as batch systems do, without
//! readers of its pipes.

use crate::kit::{Ran, Sandbox, ran, wait_for};
use crate::processes::{kill, signal};
use serde_json::{Value, json};
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use trainyard_core::Digest;

const RUN: &str = "20261122-000000-00000a";

/// A sandbox with the spec of one attempt in its store.
struct Attempt {
    s: Sandbox,
    /// Path in the store.
    folder: String,
}

impl Attempt {
    /// Creates an attempt of a shell script, in which `@name` is a path of the sandbox; `$OUT` is the folder of its
    /// output. `more` is merged over the spec.
    fn new(script: &str, more: &Value) -> Self {
        Self::of(Sandbox::new(), RUN, 1, script, more)
    }
    fn of(s: Sandbox, run: &str, attempt: u32, script: &str, more: &Value) -> Self {
        let script = script.replace('@', &s.path("").display().to_string());
        let mut spec = json!({
            "format": 1, "workflow": "w", "run": run, "stage": "s", "attempt": attempt,
            "stage_digest": Digest::of(b"s"), "kind": "run", "kind_version": 1,
            "config": {"shell": script, "env": {"OUT": {"$output": "o"}}},
            "inputs": {}, "outputs": {"o": {"kind": "files", "optional": true}}, "resources": {"cpus": 1},
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            match spec[key].as_object_mut() {
                Some(map) => map.extend(value.as_object().unwrap().clone()),
                None => spec[key] = value.clone(),
            }
        }
        let folder = format!("runs/{}-{}/{run}/attempts/s/{attempt}", &run[..4], &run[4..6]);
        s.write(&format!(".trainyard/{folder}/spec.json"), spec.to_string());
        Self { s, folder }
    }
    fn command(&self) -> Command {
        let mut command = self.s.command(&["attempt", &format!("{}#{}", self.s.store().display(), self.folder)]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
    fn start(&self) -> Child {
        self.command().spawn().unwrap()
    }
    fn run(&self) -> Ran {
        ran(self.command().output().unwrap())
    }
    fn path(&self, name: &str) -> PathBuf {
        self.s.store().join(&self.folder).join(name)
    }
    fn json(&self, name: &str) -> Option<Value> {
        serde_json::from_slice(&std::fs::read(self.path(name)).ok()?).ok()
    }
    /// Returns the texts of the stored log.
    fn log(&self) -> Vec<String> {
        let chunks = (0..).map_while(|n| std::fs::read_to_string(self.path(&format!("log/{n:06}"))).ok());
        let lines: Vec<Value> =
            chunks.collect::<String>().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        lines.iter().map(|line| line["text"].as_str().unwrap().to_string()).collect()
    }
    fn ask_to_stop(&self, request: &Value) {
        self.s.write(&format!(".trainyard/{}/cancel", self.folder), request.to_string());
    }
    /// Asserts that the process failed and reported the failure in `failure.json`.
    #[track_caller]
    fn failed(&self, ended: Ran, outcome: &str, kind: &str, message: &str) {
        let ended = ended.code(1).says(message);
        let failure = self.json("failure.json").unwrap_or_else(|| panic!("no failure.json: {ended:?}"));
        assert_eq!((&failure["outcome"], &failure["error"]["kind"]), (&json!(outcome), &json!(kind)), "{failure}");
        assert!(failure["error"]["message"].as_str().unwrap().contains(message), "{failure}");
        assert_eq!(
            (&failure["stage"], &failure["attempt"]),
            (&json!("s"), &self.json("spec.json").unwrap()["attempt"])
        );
        assert!(self.log().last().is_some_and(|line| line.contains(message)), "{:?}", self.log());
        assert!(!self.path("result.json").exists());
    }
}

#[track_caller]
fn end(child: Child) -> Ran {
    ran(child.wait_with_output().unwrap())
}

fn nothing() -> Value {
    json!({})
}

/// Script that reports its start and runs forever.
const LOOPS: &str = "touch @began; while :; do sleep 0.05; done";

/// Script that leaves a process in a separate session and runs forever.
const LEAVES: &str = "setsid sh -c 'echo $$ > @new; mv @new @pid; exec sleep 600' & while :; do sleep 0.05; done";

fn began(attempt: &Attempt, name: &str) {
    wait_for("the command", 60, || attempt.s.path(name).exists());
}

/// Whether the process of the file `pid` was started and runs; a zombie does not.
fn runs(s: &Sandbox) -> bool {
    let pid = std::fs::read_to_string(s.path("pid")).unwrap_or_else(|_| "none".into());
    let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim())).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains('Z'))
}

/// The guard process alone can stop the processes of a killed attempt.
#[test]
fn one_that_is_killed_takes_along_what_it_started() {
    let attempt = Attempt::new(LEAVES, &nothing());
    let mut child = attempt.start();
    began(&attempt, "pid");
    assert!(runs(&attempt.s));
    kill(&mut child);
    wait_for("the end of what it started", 10, || !runs(&attempt.s));
}

/// A process that leaves its session, its parent and its environment still descends from the attempt, which adopts it.
#[test]
fn what_hides_from_it_ends_with_it() {
    let hides = "env -i setsid sh -c 'echo $$ > @new; mv @new @pid; exec sleep 600' > /dev/null 2>&1 < /dev/null &";
    let waits = "while [ ! -e @pid ]; do sleep 0.05; done";
    for (end_of_script, code) in [("printf 1 > $OUT/x", 0), ("exit 3", 1)] {
        let attempt = Attempt::new(&format!("({hides}); {waits}; {end_of_script}"), &nothing());
        attempt.run().code(code);
        assert_eq!(attempt.path("failure.json").exists(), code == 1);
        assert!(!runs(&attempt.s), "it left a process");
    }
}

/// Batch systems pass the variables of an attempt to their own processes: `srun`, Ray's watchdog.
#[test]
fn what_others_marked_with_its_url_is_spared() {
    for script in ["printf 1 > $OUT/x", "exit 3"] {
        let attempt = Attempt::new(script, &nothing());
        let url = format!("{}#{}", attempt.s.store().display(), attempt.folder);
        let mut other = Command::new("sleep").arg("600").env("TRAINYARD_ATTEMPT", &url).spawn().unwrap();
        let ended = ran(attempt.command().env("TRAINYARD_ATTEMPT", &url).output().unwrap());
        assert!(other.try_wait().unwrap().is_none(), "{script}: it was killed: {ended:?}");
        kill(&mut other);
    }
}

#[test]
fn it_says_how_it_goes_and_leaves_its_result() {
    let script = "echo hello; echo careful >&2; echo '{\"name\": \"m\", \"value\": 2}' > $TRAINYARD_METRICS; \
                  while [ ! -e @go ]; do sleep 0.05; done; printf 1 > $OUT/x; echo done";
    let attempt = Attempt::new(script, &nothing());
    let child = attempt.start();
    wait_for("the log", 60, || attempt.log().len() == 2);
    let mut log = attempt.log();
    log.sort();
    assert_eq!(log, ["careful", "hello"]);
    let beat = || attempt.json("heartbeat.json").map_or(0, |beat| beat["beat"].as_u64().unwrap());
    let first = beat();
    let heartbeat = attempt.json("heartbeat.json").unwrap();
    assert_eq!(heartbeat["phase"], "running", "{heartbeat}");
    wait_for("another heartbeat", 60, || beat() > first);
    attempt.s.write("go", "");
    let ended = end(child).code(0);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""));
    assert_eq!(attempt.log().last().unwrap(), "done");
    let result = attempt.json("result.json").unwrap();
    assert_eq!((&result["metrics"], &result["outputs"]["o"]["files"][0]["path"]), (&json!({"m": 2.0}), &json!("x")));
    assert!(!attempt.path("failure.json").exists());
}

/// The variable `TRAINYARD_SUPERVISED` names another attempt.
#[test]
fn the_pipes_of_another_attempt_are_not_its_own() {
    let attempt = Attempt::new("printf 1 > $OUT/x", &nothing());
    let other = format!("{}#runs/2026-11/{RUN}/attempts/s/2", attempt.s.store().display());
    let ended = ran(attempt.command().env("TRAINYARD_SUPERVISED", other).output().unwrap()).code(0);
    assert_eq!(ended.stdout, "");
    assert!(attempt.path("result.json").exists());
}

#[test]
fn a_request_in_the_store_ends_it_and_all_that_it_started() {
    let cases = [
        (json!({"format": 1}), "cancelled", "cancelled", "the attempt was stopped"),
        (json!({"format": 1, "timed_out": true}), "timed_out", "retryable", "within its timeout of 1h00m"),
    ];
    for (request, outcome, kind, message) in cases {
        let attempt = Attempt::new(LEAVES, &json!({"timeout_millis": 3_600_000}));
        let child = attempt.start();
        began(&attempt, "pid");
        assert!(runs(&attempt.s));
        attempt.ask_to_stop(&request);
        attempt.failed(end(child), outcome, kind, message);
        assert!(!runs(&attempt.s), "it left a process");
    }
}

#[test]
fn it_ends_by_itself_at_its_deadline() {
    let attempt = Attempt::new(LEAVES, &json!({"timeout_millis": 3_000}));
    let child = attempt.start();
    attempt.failed(end(child), "timed_out", "retryable", "the attempt did not end within its timeout of 3.0s");
    assert!(!runs(&attempt.s), "it left a process");
}

/// The attempt waits for a file locked by another process, where it checks no requests.
#[test]
fn what_does_not_stop_is_stopped() {
    let attempt = Attempt::new("true", &json!({"timeout_millis": 200}));
    let lock = attempt.s.write("home/scratch/lock", "");
    let lock = File::open(lock).unwrap();
    lock.lock().unwrap();
    attempt.failed(attempt.run(), "timed_out", "retryable", "within its timeout of 200ms");
    assert_eq!(attempt.json("heartbeat.json").unwrap()["phase"], "fetching");
}

#[test]
fn it_ends_when_nobody_has_written_its_run_for_too_long() {
    let attempt = Attempt::new(LEAVES, &json!({"orphan_timeout_millis": 1_000}));
    let child = attempt.start();
    attempt.failed(end(child), "lost", "lost", "its run has had no living writer for");
    assert_eq!(attempt.json("failure.json").unwrap()["unwanted"], true);
    assert!(!runs(&attempt.s), "it left a process");
}

#[test]
fn it_ends_when_its_run_is_over() {
    let s = Sandbox::new();
    s.write("one.yaml", "version: 1\nname: one\nstages:\n  s: {run: echo hello}\n");
    s.run(&["run", "one.yaml"]).code(0);
    let spec = s.files(".trainyard/runs").into_iter().find(|file| file.ends_with("attempts/s/1/spec.json")).unwrap();
    let run = Path::new(&spec).iter().nth(1).unwrap().to_str().unwrap().to_string();
    let attempt = Attempt::of(s, &run, 2, LOOPS, &nothing());
    attempt.failed(attempt.run(), "lost", "lost", "its run is over");
    assert_eq!(attempt.json("failure.json").unwrap()["unwanted"], true);
}

/// Some systems signal the first process, others its whole group.
#[test]
fn sigterm_is_a_loss_that_is_retried() {
    for group in [false, true] {
        let attempt = Attempt::new(LOOPS, &nothing());
        let child = attempt.command().process_group(0).spawn().unwrap();
        began(&attempt, "began");
        signal("-TERM", &if group { format!("-{}", child.id()) } else { child.id().to_string() });
        let message = "stopped by the machine's batch system (SIGTERM)";
        attempt.failed(end(child), "lost", "lost", message);
    }
}

#[test]
fn sigterm_after_a_request_is_what_was_asked_for() {
    let cases = [
        (json!({"format": 1}), "cancelled", "cancelled"),
        (json!({"format": 1, "timed_out": true}), "timed_out", "retryable"),
    ];
    for (request, outcome, kind) in cases {
        let attempt = Attempt::new(LOOPS, &nothing());
        let child = attempt.start();
        began(&attempt, "began");
        attempt.ask_to_stop(&request);
        signal("-TERM", &child.id().to_string());
        attempt.failed(end(child), outcome, kind, "the attempt ");
    }
}

#[test]
fn a_command_that_fails_leaves_its_error() {
    let attempt = Attempt::new("echo working; echo 'no such table' >&2; exit 3", &nothing());
    let message = "the command of stage `s` ended with exit code 3: no such table";
    attempt.failed(attempt.run(), "failed", "data", message);
    assert_eq!(attempt.log()[..2].iter().filter(|line| *line == "working").count(), 1);
}

#[test]
fn a_secret_that_is_not_there_is_named_with_its_machine() {
    let attempt = Attempt::new("true", &json!({"secrets": {"TOKEN": "env:TOKEN_OF_SUITE"}}));
    let host = String::from_utf8(Command::new("uname").arg("-n").output().unwrap().stdout).unwrap();
    let message = format!("secret `TOKEN`: the variable TOKEN_OF_SUITE is not set on {}", host.trim());
    attempt.failed(attempt.run(), "failed", "invalid", &message);
    let attempt = Attempt::new("printf \"$TOKEN\" > $OUT/x", &json!({"secrets": {"TOKEN": "env:TOKEN_OF_SUITE"}}));
    ran(attempt.command().env("TOKEN_OF_SUITE", "hush").output().unwrap()).code(0);
    let result = attempt.json("result.json").unwrap();
    assert_eq!(result["outputs"]["o"]["files"][0]["digest"], json!(Digest::of(b"hush")));
}

/// Puts an object, and returns its entry in a list of files.
fn object(s: &Sandbox, path: &str, content: &str) -> Value {
    let digest = Digest::of(content.as_bytes());
    s.write(&format!(".trainyard/objects/{}/{digest}", digest.shard()), content);
    json!({"path": path, "digest": digest, "size": content.len()})
}

#[test]
fn sources_come_with_it() {
    let s = Sandbox::new();
    let script = object(&s, "", "#!/bin/sh\nprintf '%s ' \"$@\" \"$PLAIN\"; cat data/deep/x \"$DATA/y\"\n");
    let files = [object(&s, "deep/x", "three "), object(&s, "y", "four")];
    let folder = Digest::of_json(&files.each_ref().map(|file| (&file["path"], &file["digest"]))).unwrap();
    let more = json!({
        "sources": {"/nowhere/go.sh": script["digest"], "/nowhere/data": folder},
        "uploaded": {"/nowhere/go.sh": [script], "/nowhere/data": files},
        "config": {
            "files": {"go.sh": "/nowhere/go.sh", "data": "/nowhere/data"},
            "env": {"OUT": {"$output": "o"}, "DATA": "/nowhere/data", "PLAIN": "/nowhere/data/y"},
        },
    });
    let attempt = Attempt::of(s, RUN, 1, "./go.sh one two > $OUT/x", &more);
    attempt.run().code(0);
    let result = attempt.json("result.json").unwrap();
    let expected = Digest::of(b"one two /nowhere/data/y three four");
    assert_eq!(result["outputs"]["o"]["files"][0]["digest"], json!(expected), "{result}");
}

#[test]
fn a_source_that_is_not_what_was_planned_fails_it() {
    let s = Sandbox::new();
    let data = object(&s, "", "new");
    let more = json!({"sources": {"/nowhere/x": Digest::of(b"old")}, "uploaded": {"/nowhere/x": [data]}});
    let attempt = Attempt::of(s, RUN, 1, "touch @began", &more);
    attempt.failed(attempt.run(), "failed", "invalid", "/nowhere/x changed since the plan was made");
    assert!(!attempt.s.path("began").exists());
}

#[test]
fn the_first_result_counts_and_nothing_beside_it() {
    let attempt = Attempt::new("touch @began; while [ ! -e @go ]; do sleep 0.05; done; printf 1 > $OUT/x", &nothing());
    let child = attempt.start();
    began(&attempt, "began");
    let result = format!(".trainyard/{}/result.json", attempt.folder);
    attempt.s.write(&result, "that of somebody else");
    attempt.s.write("go", "");
    end(child).code(1).says("this one is stale");
    assert_eq!(attempt.s.read(&result), "that of somebody else");
    assert!(!attempt.path("failure.json").exists());
}

#[test]
fn an_attempt_that_has_ended_does_not_begin_again() {
    let fails = Attempt::new("echo >> @count; exit 1", &nothing());
    fails.run().code(1);
    fails.run().code(1).says("attempt 1 of stage `s` has already ended");
    let succeeds = Attempt::new("echo >> @count", &nothing());
    succeeds.run().code(0);
    let result = std::fs::read(succeeds.path("result.json")).unwrap();
    succeeds.run().code(1).says("has already ended");
    assert_eq!(std::fs::read(succeeds.path("result.json")).unwrap(), result);
    assert!(!succeeds.path("failure.json").exists());
    for attempt in [fails, succeeds] {
        assert_eq!(attempt.s.read("count"), "\n");
    }
}

#[test]
fn a_url_without_an_attempt_is_an_error_on_stderr() {
    let s = Sandbox::new();
    s.run(&["attempt", "no-attempt"]).code(1).says("is not an attempt URL");
    std::fs::create_dir(s.store()).unwrap();
    s.run(&["attempt", &format!("{}#runs/x", s.store().display())]).code(1).says("spec.json does not exist");
}
