//! Tests the states that the executor derives from Pods that are real processes.

use crate::fixture::KubernetesFixture;
use crate::server::{OUT_OF_MEMORY, Server};
use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tempfile::TempDir;
use trainyard_core::ErrorKind;
use trainyard_core::event::AttemptOutcome;
use trainyard_runtime::executors::{AttemptExit, AttemptState, Control, Executor, Handle};

/// Creates a fixture whose attempts are this `sh` script; `$1` is `attempt`, `$2` the URL.
async fn place(script: &str) -> (KubernetesFixture, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program");
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    (KubernetesFixture::on(Server::running().await, json!({"program": path})).await, folder)
}

async fn until_started(fixture: &KubernetesFixture, handle: &Handle) {
    while fixture.state(handle).await != AttemptState::Started {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn until_ended(fixture: &KubernetesFixture, handle: &Handle) -> AttemptExit {
    loop {
        if let AttemptState::Ended(ended) = fixture.state(handle).await {
            return ended;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn process_receives_url_and_log_is_kept() {
    let (fixture, _program) = place(r#"echo "$1 $2"; echo "errors" >&2"#).await;
    let task = fixture.task("sft");
    let handle = fixture.submit(&task).await;
    assert_eq!(until_ended(&fixture, &handle).await, AttemptExit::succeeded_unread());
    let log = fixture.executor.logs(&handle).await.unwrap();
    assert!(log.contains(&format!("attempt {}\n", task.url())), "{log}");
    assert!(log.contains("errors\n"), "{log}");
}

#[tokio::test]
async fn failed_process_output_is_quoted() {
    let (fixture, _program) = place("echo 'the disk is full'; exit 3").await;
    let handle = fixture.submit(&fixture.task("sft")).await;
    let ended = until_ended(&fixture, &handle).await;
    let error = ended.error.unwrap();
    assert_eq!(ended.outcome, AttemptOutcome::Failed);
    assert!(error.message.contains("code 3") && error.message.contains("the disk is full"), "{error}");
}

#[tokio::test]
async fn nonexistent_program_is_invalid() {
    let fixture = KubernetesFixture::on(Server::running().await, json!({"program": "/nowhere/trainyard"})).await;
    let handle = fixture.submit(&fixture.task("sft")).await;
    let error = until_ended(&fixture, &handle).await.error.unwrap();
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    assert!(error.message.contains("/nowhere/trainyard"), "{error}");
}

#[tokio::test]
async fn out_of_memory_kill_is_detected() {
    let (fixture, _program) = place(&format!("echo '{OUT_OF_MEMORY}'; kill -9 $$")).await;
    let handle = fixture.submit(&fixture.task("sft")).await;
    let error = until_ended(&fixture, &handle).await.error.unwrap();
    assert!(error.message.contains("ran out of memory"), "{error}");
}

#[tokio::test]
async fn cancel_ends_the_process_tree() {
    let (fixture, _program) = place("trap '' TERM; sleep 1000 & echo $! > \"$0.child\"; wait; wait").await;
    let handle = fixture.submit(&fixture.task("sft")).await;
    until_started(&fixture, &handle).await;
    let program = fixture.server.jobs()[0]["spec"]["template"]["spec"]["containers"][0]["command"][0].clone();
    let path = format!("{}.child", program.as_str().unwrap());
    let child = loop {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if let Ok(child) = text.trim().parse::<u32>() {
            break child;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    fixture.executor.cancel(&handle, Control::Kill).await.unwrap();
    assert_eq!(until_ended(&fixture, &handle).await.outcome, AttemptOutcome::Lost);
    let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "the child lives: {stat}");
}
