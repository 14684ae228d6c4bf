//! Diagnostics for operators: diagnostics on stderr on request, and the causes of errors.

use crate::kit::{Sandbox, ran};
use serde_json::Value;

const TALKS: &str = "version: 1\nname: talks\nstages:\n  say: {run: echo hello}\n";

fn sandbox() -> Sandbox {
    let s = Sandbox::new();
    s.write("talks.yaml", TALKS);
    s
}

#[test]
fn diagnostics_have_levels_and_spans_and_reach_the_attempt() {
    let s = sandbox();
    let run = s.run(&["run", "talks.yaml", "--log", "info,trainyard_store=debug"]).code(0);
    let line = run.stderr.lines().find(|l| l.contains("attempt started")).unwrap_or_else(|| panic!("{}", run.stderr));
    for part in ["INFO", "run{", "workflow=talks", "stage{stage=say", "attempt{attempt=1 pool=\"local\"}"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(run.stderr.contains("DEBUG") && run.stderr.contains("trainyard_store"), "{}", run.stderr);
    s.run(&["logs", "latest"]).code(0).prints("attempt opened").prints("hello");
}

#[test]
fn diagnostics_can_be_json_and_chosen_by_the_environment() {
    let s = sandbox();
    let mut command = s.command(&["run", "talks.yaml"]);
    let run = ran(command.env("TRAINYARD_LOG", "info").env("TRAINYARD_LOG_FORMAT", "json").output().unwrap()).code(0);
    let lines: Vec<Value> = run.stderr.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let started = lines.iter().find(|line| line["message"] == "attempt started").unwrap_or_else(|| panic!("{run:?}"));
    assert_eq!((&started["level"], &started["span"]["attempt"]), (&"INFO".into(), &1.into()));
    assert!(started["timestamp"].is_string());
}

#[test]
fn nothing_is_written_unless_asked_for_and_wrong_filters_are_refused() {
    let s = sandbox();
    let run = s.run(&["run", "talks.yaml"]).code(0);
    assert!(!run.stderr.contains("INFO") && !run.stderr.contains("trainyard_"), "{}", run.stderr);
    s.run(&["logs", "latest", "--log", "inof"]).code(2).says("`inof` is not a log level").says("trainyard_store=debug");
}

#[test]
fn an_unreachable_bucket_is_one_sentence_with_its_causes() {
    let s = Sandbox::new();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = s.command(&["runs", "list", "--store", "s3://bucket/prefix"]);
    for (name, value) in
        [("ACCESS_KEY_ID", "any"), ("SECRET_ACCESS_KEY", "any"), ("REGION", "any"), ("ALLOW_HTTP", "true")]
    {
        command.env(format!("AWS_{name}"), value);
    }
    let list = ran(command.env("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{free}")).output().unwrap()).code(3);
    assert!(
        list.stderr.starts_with("error: cannot list s3://bucket/prefix/runs: the store cannot be reached\n"),
        "{}",
        list.stderr
    );
    let causes: Vec<&str> = list.stderr.lines().filter(|l| l.trim_start().starts_with("caused by: ")).collect();
    assert!(causes.last().is_some_and(|cause| cause.contains("refused")), "{causes:?}");
    let mut once = causes.clone();
    once.dedup();
    assert_eq!(once, causes);
}
