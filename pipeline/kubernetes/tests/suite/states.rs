//! Tests the states of Jobs and Pods that the executor reports to the engine.

use crate::fixture::KubernetesFixture;
use serde_json::json;
use std::time::Duration;
use trainyard_core::ErrorKind;
use trainyard_core::event::AttemptOutcome;
use trainyard_runtime::executors::{AttemptState, Executor, Handle};

#[tokio::test]
async fn attempt_waits_runs_and_ends() {
    let fixture = KubernetesFixture::with(json!({})).await;
    let handle = fixture.submit(&fixture.task("sft")).await;
    let pod = fixture.server.pod_names().pop().unwrap();
    let lacks = "0/3 nodes are available: 3 Insufficient cpu.";
    let unplaced = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": lacks});
    fixture.server.status(&pod, json!({"phase": "Pending", "conditions": [unplaced]}));
    assert_eq!(KubernetesFixture::why(fixture.state(&handle).await), format!("no node can run it: {lacks}"));
    fixture.server.place(&pod, "gpu-3");
    fixture.server.container(&pod, "Pending", json!({"waiting": {"reason": "ContainerCreating"}}));
    assert_eq!(KubernetesFixture::why(fixture.state(&handle).await), "node gpu-3 is preparing the container");
    fixture.server.container(&pod, "Running", json!({"running": {}}));
    assert_eq!(fixture.state(&handle).await, AttemptState::Started);
    fixture.server.container(&pod, "Succeeded", json!({"terminated": {"exitCode": 0}}));
    let ended = KubernetesFixture::ended(fixture.state(&handle).await);
    assert_eq!((ended.outcome, ended.error), (AttemptOutcome::Succeeded, None));
}

#[tokio::test]
async fn out_of_memory_is_invalid() {
    let fixture = KubernetesFixture::with(json!({})).await;
    let handle = fixture.submit(&fixture.task("sft")).await;
    let pod = fixture.run_pods().pop().unwrap();
    let killed = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
    fixture.server.container(&pod, "Failed", killed);
    let ended = KubernetesFixture::ended(fixture.state(&handle).await);
    assert_eq!(ended.outcome, AttemptOutcome::Failed);
    assert_eq!(ended.error.unwrap().message, "the attempt ran out of memory: its limit is 1.0 GiB");
    let conditions = &fixture.server.jobs()[0]["status"]["conditions"];
    assert!(conditions.to_string().contains("BackoffLimitExceeded"), "{conditions}");
}

#[tokio::test]
async fn evicted_attempt_is_lost() {
    let fixture = KubernetesFixture::with(json!({})).await;
    let handle = fixture.submit(&fixture.task("sft")).await;
    let pod = fixture.run_pods().pop().unwrap();
    let message = "The node was low on resource: memory.";
    fixture.server.status(&pod, json!({"phase": "Failed", "reason": "Evicted", "message": message}));
    let ended = KubernetesFixture::ended(fixture.state(&handle).await);
    assert_eq!(ended.outcome, AttemptOutcome::Lost);
    assert!(ended.error.unwrap().message.contains(message));
}

#[tokio::test]
async fn preempted_pod_is_lost_with_its_reason() {
    let fixture = KubernetesFixture::with(json!({})).await;
    let handle = fixture.submit(&fixture.task("sft")).await;
    let pod = fixture.run_pods().pop().unwrap();
    let disrupted = json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"});
    fixture.server.status(&pod, json!({"phase": "Running", "conditions": [disrupted]}));
    fixture.server.delete_pod(&pod);
    assert_eq!(fixture.state(&handle).await, AttemptState::Started, "it has its grace");
    fixture.server.stopped(&pod);
    let ended = KubernetesFixture::ended(fixture.state(&handle).await);
    assert_eq!(ended.outcome, AttemptOutcome::Lost);
    assert!(ended.error.unwrap().message.contains("DisruptionTarget"));
    assert!(fixture.server.pods().is_empty(), "no second Pod is made");
}

#[tokio::test]
async fn missing_image_ends_the_attempt_after_a_while() {
    let fixture = KubernetesFixture::with(json!({})).await;
    let handle = fixture.submit(&fixture.task("sft")).await;
    let pod = fixture.server.pod_names().pop().unwrap();
    fixture.server.place(&pod, "gpu-3");
    let waiting = json!({"waiting": {"reason": "ErrImagePull", "message": "manifest unknown"}});
    fixture.server.container(&pod, "Pending", waiting);
    assert!(KubernetesFixture::why(fixture.state(&handle).await).contains("cannot pull the image"));
    fixture.clock.advance(Duration::from_secs(120));
    assert!(KubernetesFixture::why(fixture.state(&handle).await).contains("cannot pull the image"));
    assert_eq!(fixture.state(&handle).await, AttemptState::Started, "its Pod is being deleted");
    fixture.server.stopped(&pod);
    let ended = KubernetesFixture::ended(fixture.state(&handle).await);
    let error = ended.error.unwrap();
    assert_eq!((ended.outcome, error.kind), (AttemptOutcome::Failed, ErrorKind::Invalid));
    assert!(error.message.contains("ErrImagePull: manifest unknown"), "{error}");
    assert!(fixture.server.jobs().is_empty());
}

#[tokio::test]
async fn exceeded_quota_is_reported_and_waited_for() {
    let fixture = KubernetesFixture::with(json!({})).await;
    let quota = "pods \"x\" is forbidden: exceeded quota: team";
    fixture.server.refuse_pods(Some(quota));
    let handle = fixture.submit(&fixture.task("sft")).await;
    assert_eq!(KubernetesFixture::why(fixture.state(&handle).await), quota);
    fixture.server.deny("list events");
    assert_eq!(KubernetesFixture::why(fixture.state(&handle).await), "its Job has no Pod yet");
    fixture.server.refuse_pods(None);
    fixture.run_pods();
    assert_eq!(fixture.state(&handle).await, AttemptState::Started);
}

#[tokio::test]
async fn suspended_by_kueue_reports_the_reason() {
    let fixture = KubernetesFixture::with(json!({"queue": "team-a"})).await;
    let handle = fixture.submit(&fixture.task("sft")).await;
    assert!(fixture.server.pods().is_empty());
    assert_eq!(KubernetesFixture::why(fixture.state(&handle).await), "it waits in Kueue's queue `team-a`");
    let uid = fixture.server.jobs()[0]["metadata"]["uid"].clone();
    let message = "insufficient quota for nvidia.com/gpu in flavor h100";
    fixture.server.workload(json!({
        "metadata": {"name": "job-x", "labels": {"kueue.x-k8s.io/job-uid": uid}},
        "status": {"conditions": [{"type": "QuotaReserved", "status": "False", "reason": "Pending",
            "message": message}]},
    }));
    let words = fixture.executor.explain(&handle).await.unwrap().unwrap();
    assert!(words.contains(&format!("Kueue: not QuotaReserved: Pending: {message}")), "{words}");
    fixture.server.suspend(&handle.0, false);
    let pod = fixture.run_pods().pop().unwrap();
    assert_eq!(fixture.state(&handle).await, AttemptState::Started);
    // Kueue needs the nodes for another workload. If the Job were resumed, the attempt would start a second time.
    fixture.server.suspend(&handle.0, true);
    assert_eq!(KubernetesFixture::why(fixture.state(&handle).await), "it waits in Kueue's queue `team-a`");
    fixture.server.stopped(&pod);
    let ended = KubernetesFixture::ended(fixture.state(&handle).await);
    assert_eq!(ended.outcome, AttemptOutcome::Lost);
    assert!(ended.error.unwrap().message.contains("Kueue evicted the attempt"));
    assert!(fixture.server.jobs().is_empty());
}

#[tokio::test]
async fn nodes_start_and_fail_together() {
    let fixture = KubernetesFixture::with(json!({})).await;
    let handle = fixture.submit(&fixture.task_on("rl", 2)).await;
    let pods = fixture.server.pod_names();
    assert_eq!(pods.len(), 2);
    assert!(pods[0].starts_with(&format!("{}-0-", handle.0)), "{pods:?}");
    fixture.server.place(&pods[0], "gpu-1");
    fixture.server.container(&pods[0], "Running", json!({"running": {}}));
    assert!(KubernetesFixture::why(fixture.state(&handle).await).starts_with("1 of 2 nodes are ready"));
    fixture.server.place(&pods[1], "gpu-2");
    fixture.server.container(&pods[1], "Running", json!({"running": {}}));
    assert_eq!(fixture.state(&handle).await, AttemptState::Started);
    let failed = json!({"terminated": {"exitCode": 7, "finishedAt": "2026-11-22T10:00:00Z"}});
    fixture.server.container(&pods[1], "Failed", failed);
    assert_eq!(fixture.state(&handle).await, AttemptState::Started, "the other still runs");
    fixture.server.stopped(&pods[0]);
    let ended = KubernetesFixture::ended(fixture.state(&handle).await);
    assert!(ended.error.unwrap().message.contains("code 7"));
}

#[tokio::test]
async fn externally_deleted_job_is_lost_once_its_pod_is_gone() {
    let fixture = KubernetesFixture::with(json!({})).await;
    let handle = fixture.submit(&fixture.task("sft")).await;
    let pod = fixture.run_pods().pop().unwrap();
    fixture.server.delete_job(&handle.0);
    assert_eq!(fixture.state(&handle).await, AttemptState::Started);
    fixture.server.stopped(&pod);
    assert_eq!(KubernetesFixture::ended(fixture.state(&handle).await).outcome, AttemptOutcome::Lost);
}

#[tokio::test]
async fn dead_node_is_given_up() {
    let fixture = KubernetesFixture::with(json!({})).await;
    let handle = fixture.submit(&fixture.task("sft")).await;
    let pod = fixture.run_pods().pop().unwrap();
    fixture.server.delete_pod(&pod);
    assert_eq!(fixture.state(&handle).await, AttemptState::Started);
    fixture.clock.advance(Duration::from_secs(149));
    assert_eq!(fixture.state(&handle).await, AttemptState::Started);
    fixture.clock.advance(Duration::from_secs(1));
    assert_eq!(KubernetesFixture::ended(fixture.state(&handle).await).outcome, AttemptOutcome::Lost);
}

#[tokio::test]
async fn unknown_attempt_is_lost_among_known_ones() {
    let fixture = KubernetesFixture::with(json!({})).await;
    let handle = fixture.submit(&fixture.task("sft")).await;
    fixture.run_pods();
    let handles = [Handle("trainyard-0".into()), handle, Handle("trainyard-1".into())];
    let states = fixture.executor.poll(&handles).await.unwrap();
    let lost = |state: &AttemptState| KubernetesFixture::ended(state.clone()).outcome == AttemptOutcome::Lost;
    assert!(lost(&states[0]) && states[1] == AttemptState::Started && lost(&states[2]));
    assert!(fixture.executor.poll(&[]).await.unwrap().is_empty());
}
