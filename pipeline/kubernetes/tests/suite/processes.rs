//! Pods as real processes, and the states that the executor derives from them.

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

async fn until_started(place: &KubernetesFixture, handle: &Handle) {
    while place.state(handle).await != AttemptState::Started {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn until_ended(place: &KubernetesFixture, handle: &Handle) -> AttemptExit {
    loop {
        if let AttemptState::Ended(ended) = place.state(handle).await {
            return ended;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_process_gets_its_url_and_its_log_is_kept() {
    let (place, _program) = place(r#"echo "$1 $2"; echo "mark $TRAINYARD_ATTEMPT" >&2"#).await;
    let task = place.task("sft");
    let handle = place.submit(&task).await;
    assert_eq!(until_ended(&place, &handle).await, AttemptExit::succeeded_unread());
    let log = place.executor.logs(&handle).await.unwrap();
    assert!(log.contains(&format!("attempt {}\n", task.url())), "{log}");
    assert!(log.contains(&format!("mark {}\n", task.url())), "{log}");
}

#[tokio::test]
async fn a_process_that_fails_is_quoted() {
    let (place, _program) = place("echo 'the disk is full'; exit 3").await;
    let handle = place.submit(&place.task("sft")).await;
    let ended = until_ended(&place, &handle).await;
    let error = ended.error.unwrap();
    assert_eq!(ended.outcome, AttemptOutcome::Failed);
    assert!(error.message.contains("code 3") && error.message.contains("the disk is full"), "{error}");
}

#[tokio::test]
async fn a_program_that_is_not_there_is_invalid() {
    let place = KubernetesFixture::on(Server::running().await, json!({"program": "/nowhere/trainyard"})).await;
    let handle = place.submit(&place.task("sft")).await;
    let error = until_ended(&place, &handle).await.error.unwrap();
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    assert!(error.message.contains("/nowhere/trainyard"), "{error}");
}

#[tokio::test]
async fn a_process_that_uses_up_its_memory_is_told_apart() {
    let (place, _program) = place(&format!("echo '{OUT_OF_MEMORY}'; kill -9 $$")).await;
    let handle = place.submit(&place.task("sft")).await;
    let error = until_ended(&place, &handle).await.error.unwrap();
    assert!(error.message.contains("ran out of memory"), "{error}");
}

#[tokio::test]
async fn cancelling_ends_the_whole_tree() {
    let (place, _program) = place("trap '' TERM; sleep 1000 & echo $! > \"$0.child\"; wait; wait").await;
    let handle = place.submit(&place.task("sft")).await;
    until_started(&place, &handle).await;
    let program = place.server.jobs()[0]["spec"]["template"]["spec"]["containers"][0]["command"][0].clone();
    let path = format!("{}.child", program.as_str().unwrap());
    let child = loop {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        if let Ok(child) = text.trim().parse::<u32>() {
            break child;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    place.executor.cancel(&handle, Control::Kill).await.unwrap();
    assert_eq!(until_ended(&place, &handle).await.outcome, AttemptOutcome::Lost);
    let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "the child lives: {stat}");
}
