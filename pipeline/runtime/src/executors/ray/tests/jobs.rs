//! Tests the states of attempts that the executor derives from the statuses of Ray's jobs.

use super::server::{RecordedRequest, Server};
use super::{handle, ray, share, task};
use crate::executors::{AttemptExit, AttemptState, Control, Executor};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use trainyard_core::event::AttemptOutcome;
use trainyard_core::{Error, ErrorKind};

const NODES: &str = include_str!("fixtures/nodes.json");
const USAGE: &str = include_str!("fixtures/usage.json");
const OUTPUT: &str = include_str!("fixtures/output.json");
const PENDING: &str = include_str!("fixtures/pending.json");
const RUNNING: &str = include_str!("fixtures/running.json");
const SUCCEEDED: &str = include_str!("fixtures/succeeded.json");
const STOPPED: &str = include_str!("fixtures/stopped.json");
const EXIT_7: &str = include_str!("fixtures/exit_7.json");
const KILLED: &str = include_str!("fixtures/killed.json");
const CRASHED: &str = include_str!("fixtures/crashed.json");
const NOT_FOUND: &str = include_str!("fixtures/not_found.json");
const RUNTIME_ENV: &str = include_str!("fixtures/runtime_env.json");
const SUPERVISOR_DIED: &str = include_str!("fixtures/supervisor_died.json");
const NODE_DIED: &str = include_str!("fixtures/node_died.json");
const LOW_ON_MEMORY: &str = include_str!("fixtures/low_on_memory.json");
const START_TIMEOUT: &str = include_str!("fixtures/start_timeout.json");
const WRONG_AMOUNT: &str = include_str!("fixtures/wrong_amount.json");

/// Starts a cluster with one job.
async fn cluster(job: &'static str) -> Server {
    Server::new(move |request: &RecordedRequest| match request.line.as_str() {
        line if line.ends_with("/stop") => (200, r#"{"stopped": true}"#.to_string()),
        line if line.starts_with("GET /api/jobs/") => (200, job.to_string()),
        line if line.starts_with("GET /api/v0/nodes?") => (200, NODES.to_string()),
        line if line.starts_with("GET /api/cluster_status") => (200, USAGE.to_string()),
        line => panic!("unexpected request {line}"),
    })
    .await
}

async fn state(job: &'static str) -> AttemptState {
    let server = cluster(job).await;
    ray(&server.address, json!({})).unwrap().poll(&[handle("trainyard-a")]).await.unwrap().remove(0)
}

/// Returns outcome and error of a job that failed.
async fn end(job: &'static str) -> (AttemptOutcome, Error) {
    match state(job).await {
        AttemptState::Ended(AttemptExit { outcome, result: None, error: Some(error) }) => (outcome, error),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn running_and_succeeded_jobs_map_to_states() {
    assert_eq!(state(RUNNING).await, AttemptState::Started);
    assert_eq!(state(SUCCEEDED).await, AttemptState::Ended(AttemptExit::succeeded_unread()));
}

#[tokio::test]
async fn pending_job_reports_ray_message() {
    let AttemptState::Pending { why: Some(why) } = state(PENDING).await else { panic!("it is pending") };
    assert!(why.contains("It may be waiting for resources"), "{why}");
}

#[tokio::test]
async fn infeasible_pending_job_is_reported() {
    let mut job: Value = serde_json::from_str(PENDING).unwrap();
    job["metadata"]["trainyard.request"] = json!(r#"{"CPU":1.0,"b200":1.0}"#);
    let job: &'static str = job.to_string().leak();
    let AttemptState::Pending { why: Some(why) } = state(job).await else { panic!("it is pending") };
    assert!(why.starts_with("no node has CPU: 1, b200: 1; the nearest, 127.0.0.2, has too little b200"), "{why}");
}

#[tokio::test]
async fn failures_map_to_error_kinds() {
    use AttemptOutcome::{Cancelled, Failed, Lost};
    for (job, outcome, kind, part) in [
        (EXIT_7, Failed, ErrorKind::Bug, "ended with code 7 without an error"),
        (KILLED, Lost, ErrorKind::Lost, "was killed (signal 9)"),
        (CRASHED, Failed, ErrorKind::Bug, "crashed (signal 11)"),
        (NOT_FOUND, Failed, ErrorKind::Invalid, "`program` of the pool"),
        (RUNTIME_ENV, Failed, ErrorKind::Retryable, "Max retries exceeded with url: /code.zip"),
        (SUPERVISOR_DIED, Lost, ErrorKind::Lost, "Ray lost the attempt: The actor is dead because its worker process"),
        (NODE_DIED, Lost, ErrorKind::Lost, "Ray lost the attempt: The actor died because its node has died"),
        (LOW_ON_MEMORY, Lost, ErrorKind::Lost, "ran out of memory"),
        (START_TIMEOUT, Failed, ErrorKind::Retryable, "RAY_JOB_START_TIMEOUT_SECONDS"),
        (WRONG_AMOUNT, Failed, ErrorKind::Invalid, "the job: ValueError: The quantity of resource num_cpus cannot be"),
        (STOPPED, Cancelled, ErrorKind::Cancelled, "another client stopped"),
    ] {
        let (found, error) = end(job).await;
        assert_eq!((found, error.kind), (outcome, kind), "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[tokio::test]
async fn broken_runtime_environment_is_invalid() {
    let mut job: Value = serde_json::from_str(RUNTIME_ENV).unwrap();
    job["message"] = json!("runtime_env setup failed: Failed to set up runtime environment.\nNo such package");
    let (outcome, error) = end(job.to_string().leak()).await;
    assert_eq!((outcome, error.kind), (AttemptOutcome::Failed, ErrorKind::Invalid));
    assert!(error.message.ends_with("Failed to set up runtime environment. No such package"), "{error}");
}

#[tokio::test]
async fn error_quotes_the_end_of_the_output() {
    let (_, error) = end(EXIT_7).await;
    assert_eq!(error.message, "the attempt's process ended with code 7 without an error: bad");
}

#[tokio::test]
async fn unknown_job_is_lost() {
    let unknown = |request: &RecordedRequest| {
        let id = request.line.split('/').nth(3).unwrap_or_default();
        (404, format!("Job {id} does not exist"))
    };
    let server = Server::new(unknown).await;
    let executor = ray(&server.address, json!({})).unwrap();
    let AttemptState::Ended(ended) = executor.poll(&[handle("trainyard-a")]).await.unwrap().remove(0) else {
        panic!("it is over")
    };
    assert_eq!(ended.outcome, AttemptOutcome::Lost);
    assert!(ended.error.unwrap().message.contains("trainyard-a"));
    assert_eq!(executor.reattach(&task("a", share(1)).await, None).await.unwrap(), None);
    executor.cancel(&handle("trainyard-a"), Control::Kill).await.unwrap();
}

#[tokio::test]
async fn stop_of_a_running_job_is_repeated_until_it_ends() {
    let stopped = std::sync::Arc::new(AtomicBool::new(false));
    let now = stopped.clone();
    let server = Server::new(move |request: &RecordedRequest| match request.line.as_str() {
        line if line.ends_with("/stop") => (200, r#"{"stopped": true}"#.to_string()),
        _ if now.load(Ordering::SeqCst) => (200, STOPPED.to_string()),
        _ => (200, RUNNING.to_string()),
    })
    .await;
    let executor = ray(&server.address, json!({})).unwrap();
    let handles = [handle("trainyard-a")];
    executor.cancel(&handles[0], Control::Cancel).await.unwrap();
    for _ in 0..2 {
        assert_eq!(executor.poll(&handles).await.unwrap(), [AttemptState::Started]);
    }
    stopped.store(true, Ordering::SeqCst);
    let AttemptState::Ended(ended) = executor.poll(&handles).await.unwrap().remove(0) else { panic!("it is over") };
    assert_eq!(ended.outcome, AttemptOutcome::Cancelled);
    assert_eq!(ended.error.unwrap().message, "the attempt was stopped", "it was us");
    let stop = "POST /api/jobs/trainyard-a/stop";
    assert_eq!(server.lines().iter().filter(|line| *line == stop).count(), 3, "{:?}", server.lines());
}

#[tokio::test]
async fn stopped_pending_job_ends_once_ray_accepts() {
    let server = cluster(PENDING).await;
    let executor = ray(&server.address, json!({})).unwrap();
    let handles = [handle("trainyard-a")];
    executor.cancel(&handles[0], Control::Cancel).await.unwrap();
    let AttemptState::Ended(ended) = executor.poll(&handles).await.unwrap().remove(0) else { panic!("it is over") };
    assert_eq!(ended.outcome, AttemptOutcome::Cancelled);
}

#[tokio::test]
async fn pending_job_without_supervisor_continues() {
    let server = Server::new(|request: &RecordedRequest| match request.line.as_str() {
        line if line.ends_with("/stop") => (200, r#"{"stopped": false}"#.to_string()),
        line if line.starts_with("GET /api/jobs/") => (200, PENDING.to_string()),
        _ => (404, String::new()),
    })
    .await;
    let executor = ray(&server.address, json!({})).unwrap();
    let handles = [handle("trainyard-a")];
    executor.cancel(&handles[0], Control::Cancel).await.unwrap();
    assert!(matches!(executor.poll(&handles).await.unwrap()[0], AttemptState::Pending { .. }));
}

/// Returns Ray's list of these jobs, and of a driver that was not submitted.
fn list(ids: &[&str]) -> String {
    let mut jobs = vec![json!({"type": "DRIVER", "job_id": "01000000", "submission_id": null, "status": "RUNNING"})];
    for id in ids {
        let mut job: Value = serde_json::from_str(RUNNING).unwrap();
        job["submission_id"] = json!(id);
        jobs.push(job);
    }
    Value::from(jobs).to_string()
}

#[tokio::test]
async fn many_jobs_are_listed_and_missing_ones_queried() {
    let ids: Vec<String> = (0..20).map(|number| format!("trainyard-{number}")).collect();
    let known: Vec<&str> = ids.iter().map(String::as_str).filter(|id| *id != "trainyard-7").collect();
    let all = list(&known);
    let server = Server::new(move |request: &RecordedRequest| match request.line.as_str() {
        "GET /api/jobs/" => (200, all.clone()),
        _ => (404, "Job trainyard-7 does not exist".to_string()),
    })
    .await;
    let handles: Vec<_> = ids.iter().map(|id| handle(id)).collect();
    let states = ray(&server.address, json!({})).unwrap().poll(&handles).await.unwrap();
    for (number, state) in states.iter().enumerate() {
        let lost = matches!(state, AttemptState::Ended(ended) if ended.outcome == AttemptOutcome::Lost);
        assert_eq!((lost, *state == AttemptState::Started), (number == 7, number != 7), "{number}: {state:?}");
    }
    assert_eq!(server.lines(), ["GET /api/jobs/", "GET /api/jobs/trainyard-7"]);
}

#[tokio::test]
async fn expensive_list_is_not_read_again() {
    let ids: Vec<String> = (0..20).map(|number| format!("trainyard-{number}")).collect();
    let old: Vec<String> = (0..400).map(|number| format!("old-{number}")).collect();
    let all = list(&ids.iter().chain(&old).map(String::as_str).collect::<Vec<_>>());
    let server = Server::new(move |request: &RecordedRequest| match request.line.as_str() {
        "GET /api/jobs/" => (200, all.clone()),
        _ => (200, RUNNING.to_string()),
    })
    .await;
    let executor = ray(&server.address, json!({})).unwrap();
    let handles: Vec<_> = ids.iter().map(|id| handle(id)).collect();
    for _ in 0..3 {
        assert_eq!(executor.poll(&handles).await.unwrap(), vec![AttemptState::Started; 20]);
    }
    assert_eq!(server.lines().iter().filter(|line| *line == "GET /api/jobs/").count(), 1);
    assert_eq!(server.lines().len(), 1 + 2 * 20);
}

#[tokio::test]
async fn output_tail_is_shown() {
    let logs: String = (0..20_000).map(|line| format!("line {line}\n")).collect();
    let body = json!({"logs": logs}).to_string();
    let server = Server::new(move |_: &RecordedRequest| (200, body.clone())).await;
    let text = ray(&server.address, json!({})).unwrap().logs(&handle("trainyard-a")).await.unwrap();
    assert!(text.len() <= 64 << 10 && text.starts_with("line ") && text.ends_with("line 19999\n"), "{}", text.len());
    let server = Server::new(|_: &RecordedRequest| (200, OUTPUT.to_string())).await;
    let text = ray(&server.address, json!({})).unwrap().logs(&handle("trainyard-a")).await.unwrap();
    assert!(text.contains("\nhello\nGPUS=0\n"), "{text}");
    let server = Server::new(|_: &RecordedRequest| (404, "Job trainyard-a does not exist".to_string())).await;
    assert_eq!(ray(&server.address, json!({})).unwrap().logs(&handle("trainyard-a")).await.unwrap(), "");
}

#[tokio::test]
async fn reattach_finds_a_job_by_its_handle_or_key() {
    let server = cluster(RUNNING).await;
    let executor = ray(&server.address, json!({})).unwrap();
    let task = task("a", share(1)).await;
    let old = handle("trainyard-old");
    assert_eq!(executor.reattach(&task, Some(&old)).await.unwrap(), Some(old));
    assert_eq!(executor.reattach(&task, None).await.unwrap(), Some(handle(&task.key())));
    assert_eq!(server.lines(), ["GET /api/jobs/trainyard-old".to_string(), format!("GET /api/jobs/{}", task.key())]);
}

#[tokio::test]
async fn explanation_has_message_request_and_nodes() {
    let mut job: Value = serde_json::from_str(PENDING).unwrap();
    job["metadata"]["trainyard.request"] = json!(r#"{"CPU":1.0,"b200":1.0}"#);
    let server = cluster(job.to_string().leak()).await;
    let executor = ray(&server.address, json!({})).unwrap();
    let text = executor.explain(&handle("trainyard-a")).await.unwrap().unwrap();
    for words in
        ["PENDING", "Job has not started yet", "requests CPU: 1, b200: 1", "no node has", "h100: 2", "1.0/5.0 CPU"]
    {
        assert!(text.contains(words), "`{words}` is missing in\n{text}");
    }
}
