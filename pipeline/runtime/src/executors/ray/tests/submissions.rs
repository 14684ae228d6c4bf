//! Tests the submission of jobs.

use super::server::{RecordedRequest, Server};
use super::{ray, share, task};
use crate::executors::Executor;
use serde_json::{Value, json};
use trainyard_core::ErrorKind;
use trainyard_engine::MachineShare;

const SUBMITTED: &str = include_str!("fixtures/submitted.json");
const EXISTS: &str = include_str!("fixtures/exists.txt");
const NODES: &str = include_str!("fixtures/nodes.json");

/// Starts a cluster with this response to submissions.
async fn cluster(status: u16, body: &'static str) -> Server {
    Server::new(move |request: &RecordedRequest| match request.line.as_str() {
        "POST /api/jobs/" => (status, body.to_string()),
        line if line.starts_with("GET /api/v0/nodes?") => (200, NODES.to_string()),
        line => panic!("unexpected request {line}"),
    })
    .await
}

fn submitted(server: &Server) -> Vec<Value> {
    let requests = server.requests().into_iter().filter(|request| request.line.starts_with("POST"));
    requests.map(|request| serde_json::from_str(&request.body).unwrap()).collect()
}

#[tokio::test]
async fn job_request_has_name_amounts_and_command() {
    let server = cluster(200, SUBMITTED).await;
    let executor = ray(
        &server.address,
        json!({
            "resources": {"h100": 1},
            "environment": {"A": "b"},
            "runtime_env": {"config": {"eager_install": false}},
        }),
    );
    let task = task("sft", MachineShare { memory: 1 << 30, gpus: vec![3, 4], ..share(2) }).await;
    let handles = executor.unwrap().submit(std::slice::from_ref(&task)).await;
    assert_eq!(handles[0].as_ref().unwrap().0, task.key());
    let mut job = submitted(&server).remove(0);
    let variables = job["runtime_env"]["env_vars"].take();
    assert_eq!(
        job,
        json!({
            "submission_id": task.key(),
            "entrypoint": format!(r"exec '/opt/trainyard'\''s/bin/trainyard' 'attempt' '{}'", task.url()),
            "entrypoint_num_cpus": 2.0, "entrypoint_num_gpus": 2.0, "entrypoint_memory": 1 << 30,
            "entrypoint_resources": {"h100": 1.0},
            "metadata": {
                "job_name": "agent/sft", "trainyard.workflow": "agent", "trainyard.run": "20261122-120000-abcdef",
                "trainyard.stage": "sft", "trainyard.attempt": "1",
                "trainyard.request": r#"{"CPU":2.0,"GPU":2.0,"h100":1.0,"memory":1073741824.0}"#
            },
            "runtime_env": {"config": {"eager_install": false}, "env_vars": null}
        })
    );
    assert_eq!(
        variables,
        json!({"A": "b", "OMP_NUM_THREADS": "2", "RAYON_NUM_THREADS": "2"}),
        "Ray hands the variables to its own processes too, so none marks the attempt"
    );
}

#[tokio::test]
async fn attempt_without_gpus_sees_none() {
    let server = cluster(200, SUBMITTED).await;
    ray(&server.address, json!({})).unwrap().submit(&[task("a", share(1)).await]).await[0].as_ref().unwrap();
    assert_eq!(submitted(&server)[0]["runtime_env"]["env_vars"]["CUDA_VISIBLE_DEVICES"], "");
    let server = cluster(200, SUBMITTED).await;
    let shown = ray(&server.address, json!({"hide_gpus": false})).unwrap();
    shown.submit(&[task("a", share(1)).await]).await[0].as_ref().unwrap();
    assert!(submitted(&server)[0]["runtime_env"]["env_vars"].get("CUDA_VISIBLE_DEVICES").is_none());
}

#[tokio::test]
async fn repeated_submission_returns_the_existing_job() {
    let task = task("a", share(1)).await;
    let exists = EXISTS.replace("trainyard-ok", &task.key());
    let server = Server::new(move |request: &RecordedRequest| match request.line.as_str() {
        "POST /api/jobs/" => (500, exists.clone()),
        _ => (200, NODES.to_string()),
    })
    .await;
    let handles = ray(&server.address, json!({})).unwrap().submit(std::slice::from_ref(&task)).await;
    assert_eq!(handles[0].as_ref().unwrap().0, task.key());
}

#[tokio::test]
async fn many_submissions_return_in_order() {
    let server = cluster(200, SUBMITTED).await;
    let mut tasks = Vec::new();
    for number in 0..40 {
        tasks.push(task(&format!("a{number}"), share(1)).await);
    }
    let handles = ray(&server.address, json!({})).unwrap().submit(&tasks).await;
    let keys: Vec<_> = tasks.iter().map(crate::executors::AttemptTask::key).collect();
    assert_eq!(handles.into_iter().map(|handle| handle.unwrap().0).collect::<Vec<_>>(), keys);
    assert_eq!(server.lines().iter().filter(|line| line.starts_with("GET")).count(), 1, "nodes are queried once");
}

#[tokio::test]
async fn infeasible_task_is_refused_with_the_nearest_node() {
    let server = cluster(200, SUBMITTED).await;
    let executor = ray(&server.address, json!({"resources": {"b200": 1}})).unwrap();
    let results = executor.submit(&[task("a", share(1)).await]).await;
    let error = results[0].as_ref().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    let text = error.to_string();
    assert!(text.contains("no node has CPU: 1, b200: 1") && text.contains("has too little b200"), "{text}");
    assert!(text.contains("h100: 2") && text.contains("autoscaling: true"), "{text}");
    assert_eq!(submitted(&server), Vec::<Value>::new());
}

#[tokio::test]
async fn infeasible_task_is_submitted_with_autoscaling() {
    let server = cluster(200, SUBMITTED).await;
    let executor = ray(&server.address, json!({"resources": {"b200": 1}, "autoscaling": true})).unwrap();
    executor.submit(&[task("a", share(1)).await]).await[0].as_ref().unwrap();
    assert_eq!(submitted(&server).len(), 1);
}

#[tokio::test]
async fn cluster_without_node_list_refuses_nothing() {
    let server = Server::new(|request: &RecordedRequest| match request.line.as_str() {
        "POST /api/jobs/" => (200, SUBMITTED.to_string()),
        _ => (404, "404: Not Found".to_string()),
    })
    .await;
    let executor = ray(&server.address, json!({"resources": {"b200": 1}})).unwrap();
    executor.submit(&[task("a", share(1)).await]).await[0].as_ref().unwrap();
}

#[tokio::test]
async fn multi_node_stages_are_refused() {
    let server = cluster(200, SUBMITTED).await;
    let mut task = task("a", share(1)).await;
    task.grant.shares.push(share(1));
    let results = ray(&server.address, json!({})).unwrap().submit(&[task]).await;
    let error = results[0].as_ref().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.to_string().contains("on 2 nodes"), "{error}");
    assert_eq!(submitted(&server), Vec::<Value>::new());
}
