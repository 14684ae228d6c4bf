//! Tests attempts that are stopped, reattached and explained.

use crate::fixture::KubernetesFixture;
use serde_json::{Value, json};
use trainyard_core::event::AttemptOutcome;
use trainyard_runtime::executors::{AttemptState, Control, Executor, Handle};

fn grace(pod: &Value) -> &Value {
    &pod["metadata"]["deletionGracePeriodSeconds"]
}

#[tokio::test]
async fn cancelled_attempt_ends_when_its_pod_is_gone() {
    let fixture = KubernetesFixture::with(json!({})).await;
    let handle = fixture.submit(&fixture.task("sft")).await;
    let pod = fixture.run_pods().pop().unwrap();
    fixture.executor.cancel(&handle, Control::Run).await.unwrap();
    assert_eq!(fixture.state(&handle).await, AttemptState::Started, "it goes on");
    fixture.executor.cancel(&handle, Control::Cancel).await.unwrap();
    assert_eq!(grace(&fixture.server.pods()[0]), &json!(30));
    assert_eq!(fixture.state(&handle).await, AttemptState::Started);
    fixture.executor.cancel(&handle, Control::Kill).await.unwrap();
    assert_eq!(grace(&fixture.server.pods()[0]), &json!(1), "no more time for it");
    assert_eq!(fixture.state(&handle).await, AttemptState::Started, "its node has not reported its end");
    fixture.server.stopped(&pod);
    assert_eq!(KubernetesFixture::ended(fixture.state(&handle).await).outcome, AttemptOutcome::Lost);
    assert!(fixture.server.jobs().is_empty());
    fixture.executor.cancel(&handle, Control::Kill).await.unwrap();
}

#[tokio::test]
async fn unscheduled_attempt_is_cancelled_at_once() {
    let fixture = KubernetesFixture::with(json!({})).await;
    let handle = fixture.submit(&fixture.task("sft")).await;
    fixture.executor.cancel(&handle, Control::Cancel).await.unwrap();
    assert_eq!(KubernetesFixture::ended(fixture.state(&handle).await).outcome, AttemptOutcome::Lost);
}

#[tokio::test]
async fn reattach_finds_attempt_by_handle_and_key() {
    let fixture = KubernetesFixture::with(json!({})).await;
    let task = fixture.task("sft");
    assert_eq!(fixture.executor.reattach(&task, None).await.unwrap(), None);
    let handle = fixture.submit(&task).await;
    assert_eq!(fixture.executor.reattach(&task, None).await.unwrap().as_ref(), Some(&handle));
    assert_eq!(fixture.executor.reattach(&task, Some(&handle)).await.unwrap().as_ref(), Some(&handle));
    let other = Handle("trainyard-0".into());
    assert_eq!(fixture.executor.reattach(&task, Some(&other)).await.unwrap(), None);
}

#[tokio::test]
async fn logs_come_from_all_pods() {
    let fixture = KubernetesFixture::with(json!({})).await;
    let handle = fixture.submit(&fixture.task_on("rl", 2)).await;
    let pods = fixture.server.pod_names();
    fixture.server.log(&pods[0], "error: no such file\n");
    let text = fixture.executor.logs(&handle).await.unwrap();
    let expected = format!(
        "Pod {}:\nerror: no such file\nPod {}:\ncontainer \"attempt\" in pod \"{1}\" is waiting to start: \
         ContainerCreating\n",
        pods[0], pods[1]
    );
    assert_eq!(text, expected);
    assert_eq!(fixture.executor.logs(&Handle("trainyard-0".into())).await.unwrap(), "");
}

#[tokio::test]
async fn explanation_includes_events() {
    let fixture = KubernetesFixture::with(json!({})).await;
    let handle = fixture.submit(&fixture.task("sft")).await;
    let pod = fixture.server.pod_names().pop().unwrap();
    fixture.server.event(&pod, "FailedScheduling", "0/3 nodes are available");
    fixture.server.event("another", "FailedScheduling", "not about it");
    let words = fixture.executor.explain(&handle).await.unwrap().unwrap();
    assert!(words.starts_with(&format!("Job {} in namespace ml", handle.0)), "{words}");
    assert!(words.contains("warning: FailedScheduling: 0/3 nodes are available"), "{words}");
    assert!(!words.contains("not about it"), "{words}");
    assert_eq!(fixture.executor.explain(&Handle("trainyard-0".into())).await.unwrap(), None);
}
