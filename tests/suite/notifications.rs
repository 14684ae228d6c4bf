//! Webhooks of the site file are notified of the result of a run and never change it.

use crate::kit::Sandbox;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::thread::JoinHandle;

const GOOD: &str = "version: 1\nname: good\nstages:\n  one: {uses: noop}\n";
const BAD: &str = "version: 1\nname: bad\nstages:\n  one:\n    run: exit 7\n    outputs: {x: {kind: files}}\n";

/// Starts a server that sends these responses in turn and returns the bodies that it received.
fn server(answers: &'static [&'static str]) -> (String, JoinHandle<Vec<serde_json::Value>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hooks/secret-path", listener.local_addr().unwrap());
    let heard = std::thread::spawn(move || answers.iter().map(|answer| serve(&listener, answer)).collect());
    (url, heard)
}

fn serve(listener: &TcpListener, answer: &str) -> serde_json::Value {
    let (stream, _) = listener.accept().unwrap();
    let mut reader = BufReader::new(&stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).unwrap() > 2 {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    write!(&stream, "HTTP/1.1 {answer}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").unwrap();
    serde_json::from_slice(&body).unwrap()
}

#[test]
fn failed_run_is_reported_and_busy_servers_are_retried() {
    let (url, heard) = server(&["503 Service Unavailable", "200 OK"]);
    let s = Sandbox::new();
    s.write("trainyard.yaml", format!("version: 1\nnotifications: [{{webhook: \"{url}\"}}]\n"));
    s.write("bad.yaml", BAD);
    let ran = s.run(&["run", "bad.yaml"]).code(1);
    assert!(!ran.stderr.contains("warning"), "{}", ran.stderr);
    let told = heard.join().unwrap().remove(1);
    assert_eq!(
        (&told["workflow"], &told["status"], &told["failed"][0]["stage"]),
        (&"bad".into(), &"failed".into(), &"one".into())
    );
    assert!(told["failed"][0]["error"].as_str().unwrap().contains("exit code 7"), "{told}");
    assert!(told["text"].as_str().unwrap().contains("1 failed"), "{told}");
}

#[test]
fn a_failed_check_is_told_once() {
    let (url, heard) = server(&["200 OK"]);
    let s = Sandbox::new();
    s.write("trainyard.yaml", format!("version: 1\nnotifications: [{{webhook: \"{url}\"}}]\n"));
    s.write(
        "low.yaml",
        "version: 1\nname: low\nstages:\n  one:\n    \
         run: printf '{\"name\":\"x\",\"value\":0}\\n' >> \"$TRAINYARD_METRICS\"\n    checks: [{metric: x, min: 1}]\n",
    );
    s.run(&["run", "low.yaml"]).code(1);
    let failed = heard.join().unwrap()[0]["failed"].clone();
    assert_eq!(failed.as_array().unwrap().len(), 1, "{failed}");
    assert!(failed[0]["error"].as_str().unwrap().contains("x is 0"), "{failed}");
}

#[test]
fn unsubscribed_outcomes_are_not_sent() {
    let (url, heard) = server(&["200 OK"]);
    let s = Sandbox::new();
    s.write(
        "trainyard.yaml",
        "version: 1\nnotifications:\n  - {on: [failed], webhook: \"http://127.0.0.1:1/\"}\n  \
         - {on: [succeeded], webhook: \"env:HOOK\"}\n",
    );
    s.write("good.yaml", GOOD);
    let out = s.command(&["run", "good.yaml"]).env("HOOK", url).output().unwrap();
    assert!(out.status.success());
    assert_eq!(String::from_utf8_lossy(&out.stderr).matches("warning").count(), 0);
    assert_eq!(heard.join().unwrap()[0]["status"], "succeeded");
}

#[test]
fn unreachable_webhook_is_a_warning_without_its_path() {
    let s = Sandbox::new();
    s.write(
        "trainyard.yaml",
        "version: 1\nnotifications: [{on: [succeeded], webhook: \"http://127.0.0.1:1/hooks/secret-path\"}]\n",
    );
    s.write("good.yaml", GOOD);
    let ran = s.run(&["run", "good.yaml"]).code(0).says("warning: the notification to 127.0.0.1 was not delivered");
    assert!(!ran.stderr.contains("secret-path"), "{}", ran.stderr);
}

#[test]
fn a_failed_gate_is_told_to_a_command_and_the_recovery_to_slack() {
    let (url, heard) = server(&["200 OK"]);
    let s = Sandbox::new();
    let told = s.path("told.json").display().to_string();
    s.write(
        "trainyard.yaml",
        format!(
            "version: 1\nnotifications:\n  - {{on: [gate], command: [sh, -c, \"cat > {told}\"]}}\n  \
             - {{on: [recovered], slack: \"{url}\"}}\n"
        ),
    );
    s.write(
        "low.yaml",
        "version: 1\nname: low\nparams: {x: {type: int}}\nstages:\n  one:\n    \
         run: printf '{\"name\":\"x\",\"value\":%d}\\n' ${{ params.x }} >> \"$TRAINYARD_METRICS\"\n    \
         checks: [{metric: x, min: 1}]\n",
    );
    s.run(&["run", "low.yaml", "-p", "x=2"]).code(0);
    s.run(&["run", "low.yaml", "-p", "x=0"]).code(1);
    let body: serde_json::Value = serde_json::from_str(&s.read("told.json")).unwrap();
    assert_eq!((&body["events"], &body["workflow"]), (&serde_json::json!(["failed", "gate"]), &"low".into()));
    s.run(&["run", "low.yaml", "-p", "x=3"]).code(0);
    let body = heard.join().unwrap().remove(0);
    assert_eq!(body.as_object().unwrap().keys().collect::<Vec<_>>(), ["text"]);
    assert!(body["text"].as_str().unwrap().contains("succeeded"), "{body}");
}

#[test]
fn a_command_that_fails_is_a_warning_without_its_arguments() {
    let s = Sandbox::new();
    s.write(
        "trainyard.yaml",
        "version: 1\nnotifications: [{on: [succeeded], command: [\"false\", secret-argument]}]\n",
    );
    s.write("good.yaml", GOOD);
    let ran = s.run(&["run", "good.yaml"]).code(0).says("warning: the notification to the command false was not");
    assert!(!ran.stderr.contains("secret-argument"), "{}", ran.stderr);
}
