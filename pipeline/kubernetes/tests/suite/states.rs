//! States of Jobs and Pods, as reported to the engine.

use crate::fixture::KubernetesFixture;
use serde_json::json;
use std::time::Duration;
use trainyard_core::ErrorKind;
use trainyard_core::event::AttemptOutcome;
use trainyard_runtime::executors::{AttemptState, Executor, Handle};

#[tokio::test]
async fn an_attempt_waits_runs_and_ends() {
    let place = KubernetesFixture::with(json!({})).await;
    let handle = place.submit(&place.task("sft")).await;
    let pod = place.server.pod_names().pop().unwrap();
    let lacks = "0/3 nodes are available: 3 Insufficient cpu.";
    let unplaced = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": lacks});
    place.server.status(&pod, json!({"phase": "Pending", "conditions": [unplaced]}));
    assert_eq!(KubernetesFixture::why(place.state(&handle).await), format!("no node can take it: {lacks}"));
    place.server.place(&pod, "gpu-3");
    place.server.container(&pod, "Pending", json!({"waiting": {"reason": "ContainerCreating"}}));
    assert_eq!(KubernetesFixture::why(place.state(&handle).await), "node gpu-3 prepares its container");
    place.server.container(&pod, "Running", json!({"running": {}}));
    assert_eq!(place.state(&handle).await, AttemptState::Started);
    place.server.container(&pod, "Succeeded", json!({"terminated": {"exitCode": 0}}));
    let ended = KubernetesFixture::ended(place.state(&handle).await);
    assert_eq!((ended.outcome, ended.error), (AttemptOutcome::Succeeded, None));
}

#[tokio::test]
async fn memory_that_ran_out_is_told_apart() {
    let place = KubernetesFixture::with(json!({})).await;
    let handle = place.submit(&place.task("sft")).await;
    let pod = place.run_pods().pop().unwrap();
    let killed = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
    place.server.container(&pod, "Failed", killed);
    let ended = KubernetesFixture::ended(place.state(&handle).await);
    assert_eq!(ended.outcome, AttemptOutcome::Failed);
    assert_eq!(ended.error.unwrap().message, "the attempt ran out of memory: its limit is 1.0 GiB");
    let conditions = &place.server.jobs()[0]["status"]["conditions"];
    assert!(conditions.to_string().contains("BackoffLimitExceeded"), "{conditions}");
}

#[tokio::test]
async fn an_evicted_attempt_is_lost() {
    let place = KubernetesFixture::with(json!({})).await;
    let handle = place.submit(&place.task("sft")).await;
    let pod = place.run_pods().pop().unwrap();
    let message = "The node was low on resource: memory.";
    place.server.status(&pod, json!({"phase": "Failed", "reason": "Evicted", "message": message}));
    let ended = KubernetesFixture::ended(place.state(&handle).await);
    assert_eq!(ended.outcome, AttemptOutcome::Lost);
    assert!(ended.error.unwrap().message.contains(message));
}

#[tokio::test]
async fn a_preempted_pod_that_is_gone_is_lost_with_its_reason() {
    let place = KubernetesFixture::with(json!({})).await;
    let handle = place.submit(&place.task("sft")).await;
    let pod = place.run_pods().pop().unwrap();
    let disrupted = json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"});
    place.server.status(&pod, json!({"phase": "Running", "conditions": [disrupted]}));
    place.server.delete_pod(&pod);
    assert_eq!(place.state(&handle).await, AttemptState::Started, "it has its grace");
    place.server.stopped(&pod);
    let ended = KubernetesFixture::ended(place.state(&handle).await);
    assert_eq!(ended.outcome, AttemptOutcome::Lost);
    assert!(ended.error.unwrap().message.contains("DisruptionTarget"));
    assert!(place.server.pods().is_empty(), "no second Pod is made");
}

#[tokio::test]
async fn an_image_that_is_not_there_ends_the_attempt_after_a_while() {
    let place = KubernetesFixture::with(json!({})).await;
    let handle = place.submit(&place.task("sft")).await;
    let pod = place.server.pod_names().pop().unwrap();
    place.server.place(&pod, "gpu-3");
    let waiting = json!({"waiting": {"reason": "ErrImagePull", "message": "manifest unknown"}});
    place.server.container(&pod, "Pending", waiting);
    assert!(KubernetesFixture::why(place.state(&handle).await).contains("cannot be pulled"));
    place.clock.advance(Duration::from_secs(120));
    assert!(KubernetesFixture::why(place.state(&handle).await).contains("cannot be pulled"));
    assert_eq!(place.state(&handle).await, AttemptState::Started, "its Pod is asked to go");
    place.server.stopped(&pod);
    let ended = KubernetesFixture::ended(place.state(&handle).await);
    let error = ended.error.unwrap();
    assert_eq!((ended.outcome, error.kind), (AttemptOutcome::Failed, ErrorKind::Invalid));
    assert!(error.message.contains("ErrImagePull: manifest unknown"), "{error}");
    assert!(place.server.jobs().is_empty());
}

#[tokio::test]
async fn a_quota_is_said_and_waited_for() {
    let place = KubernetesFixture::with(json!({})).await;
    let quota = "pods \"x\" is forbidden: exceeded quota: team";
    place.server.refuse_pods(Some(quota));
    let handle = place.submit(&place.task("sft")).await;
    assert_eq!(KubernetesFixture::why(place.state(&handle).await), quota);
    place.server.deny("list events");
    assert_eq!(KubernetesFixture::why(place.state(&handle).await), "its Job has no Pod yet");
    place.server.refuse_pods(None);
    place.run_pods();
    assert_eq!(place.state(&handle).await, AttemptState::Started);
}

#[tokio::test]
async fn kueue_holds_a_job_and_is_quoted() {
    let place = KubernetesFixture::with(json!({"queue": "team-a"})).await;
    let handle = place.submit(&place.task("sft")).await;
    assert!(place.server.pods().is_empty());
    assert_eq!(KubernetesFixture::why(place.state(&handle).await), "it waits in Kueue's queue `team-a`");
    let uid = place.server.jobs()[0]["metadata"]["uid"].clone();
    let message = "insufficient quota for nvidia.com/gpu in flavor h100";
    place.server.workload(json!({
        "metadata": {"name": "job-x", "labels": {"kueue.x-k8s.io/job-uid": uid}},
        "status": {"conditions": [{"type": "QuotaReserved", "status": "False", "reason": "Pending",
            "message": message}]},
    }));
    let words = place.executor.explain(&handle).await.unwrap().unwrap();
    assert!(words.contains(&format!("Kueue: not QuotaReserved: Pending: {message}")), "{words}");
    place.server.suspend(&handle.0, false);
    let pod = place.run_pods().pop().unwrap();
    assert_eq!(place.state(&handle).await, AttemptState::Started);
    // Kueue needs the nodes for another workload. If the Job were resumed, the attempt would start a second time.
    place.server.suspend(&handle.0, true);
    assert_eq!(KubernetesFixture::why(place.state(&handle).await), "it waits in Kueue's queue `team-a`");
    place.server.stopped(&pod);
    let ended = KubernetesFixture::ended(place.state(&handle).await);
    assert_eq!(ended.outcome, AttemptOutcome::Lost);
    assert!(ended.error.unwrap().message.contains("Kueue took its nodes"));
    assert!(place.server.jobs().is_empty());
}

#[tokio::test]
async fn several_nodes_start_together_and_fall_together() {
    let place = KubernetesFixture::with(json!({})).await;
    let handle = place.submit(&place.task_on("rl", 2)).await;
    let pods = place.server.pod_names();
    assert_eq!(pods.len(), 2);
    assert!(pods[0].starts_with(&format!("{}-0-", handle.0)), "{pods:?}");
    place.server.place(&pods[0], "gpu-1");
    place.server.container(&pods[0], "Running", json!({"running": {}}));
    assert!(KubernetesFixture::why(place.state(&handle).await).starts_with("1 of 2 nodes are ready"));
    place.server.place(&pods[1], "gpu-2");
    place.server.container(&pods[1], "Running", json!({"running": {}}));
    assert_eq!(place.state(&handle).await, AttemptState::Started);
    let failed = json!({"terminated": {"exitCode": 7, "finishedAt": "2026-11-22T10:00:00Z"}});
    place.server.container(&pods[1], "Failed", failed);
    assert_eq!(place.state(&handle).await, AttemptState::Started, "the other still runs");
    place.server.stopped(&pods[0]);
    let ended = KubernetesFixture::ended(place.state(&handle).await);
    assert!(ended.error.unwrap().message.contains("code 7"));
}

#[tokio::test]
async fn a_job_that_somebody_deletes_is_lost_once_its_pod_is_gone() {
    let place = KubernetesFixture::with(json!({})).await;
    let handle = place.submit(&place.task("sft")).await;
    let pod = place.run_pods().pop().unwrap();
    place.server.delete_job(&handle.0);
    assert_eq!(place.state(&handle).await, AttemptState::Started);
    place.server.stopped(&pod);
    assert_eq!(KubernetesFixture::ended(place.state(&handle).await).outcome, AttemptOutcome::Lost);
}

#[tokio::test]
async fn a_node_that_never_answers_is_given_up() {
    let place = KubernetesFixture::with(json!({})).await;
    let handle = place.submit(&place.task("sft")).await;
    let pod = place.run_pods().pop().unwrap();
    place.server.delete_pod(&pod);
    assert_eq!(place.state(&handle).await, AttemptState::Started);
    place.clock.advance(Duration::from_secs(149));
    assert_eq!(place.state(&handle).await, AttemptState::Started);
    place.clock.advance(Duration::from_secs(1));
    assert_eq!(KubernetesFixture::ended(place.state(&handle).await).outcome, AttemptOutcome::Lost);
}

#[tokio::test]
async fn an_attempt_that_nobody_knows_is_lost_among_those_that_are_known() {
    let place = KubernetesFixture::with(json!({})).await;
    let handle = place.submit(&place.task("sft")).await;
    place.run_pods();
    let handles = [Handle("trainyard-0".into()), handle, Handle("trainyard-1".into())];
    let states = place.executor.poll(&handles).await.unwrap();
    let lost = |state: &AttemptState| KubernetesFixture::ended(state.clone()).outcome == AttemptOutcome::Lost;
    assert!(lost(&states[0]) && states[1] == AttemptState::Started && lost(&states[2]));
    assert!(place.executor.poll(&[]).await.unwrap().is_empty());
}
