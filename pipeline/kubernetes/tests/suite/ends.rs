//! Attempts that are stopped, reattached and explained.

use crate::fixture::KubernetesFixture;
use serde_json::{Value, json};
use trainyard_core::event::AttemptOutcome;
use trainyard_runtime::executors::{AttemptState, Control, Executor, Handle};

fn grace(pod: &Value) -> &Value {
    &pod["metadata"]["deletionGracePeriodSeconds"]
}

#[tokio::test]
async fn a_cancelled_attempt_is_over_when_its_pod_is_gone() {
    let place = KubernetesFixture::with(json!({})).await;
    let handle = place.submit(&place.task("sft")).await;
    let pod = place.run_pods().pop().unwrap();
    place.executor.cancel(&handle, Control::Run).await.unwrap();
    assert_eq!(place.state(&handle).await, AttemptState::Started, "it goes on");
    place.executor.cancel(&handle, Control::Cancel).await.unwrap();
    assert_eq!(grace(&place.server.pods()[0]), &json!(30));
    assert_eq!(place.state(&handle).await, AttemptState::Started);
    place.executor.cancel(&handle, Control::Kill).await.unwrap();
    assert_eq!(grace(&place.server.pods()[0]), &json!(1), "no more time for it");
    assert_eq!(place.state(&handle).await, AttemptState::Started, "its node has not said that it is dead");
    place.server.stopped(&pod);
    assert_eq!(KubernetesFixture::ended(place.state(&handle).await).outcome, AttemptOutcome::Lost);
    assert!(place.server.jobs().is_empty());
    place.executor.cancel(&handle, Control::Kill).await.unwrap();
}

#[tokio::test]
async fn an_attempt_that_has_no_node_is_cancelled_at_once() {
    let place = KubernetesFixture::with(json!({})).await;
    let handle = place.submit(&place.task("sft")).await;
    place.executor.cancel(&handle, Control::Cancel).await.unwrap();
    assert_eq!(KubernetesFixture::ended(place.state(&handle).await).outcome, AttemptOutcome::Lost);
}

#[tokio::test]
async fn an_attempt_is_found_by_handle_and_by_key() {
    let place = KubernetesFixture::with(json!({})).await;
    let task = place.task("sft");
    assert_eq!(place.executor.reattach(&task, None).await.unwrap(), None);
    let handle = place.submit(&task).await;
    assert_eq!(place.executor.reattach(&task, None).await.unwrap().as_ref(), Some(&handle));
    assert_eq!(place.executor.reattach(&task, Some(&handle)).await.unwrap().as_ref(), Some(&handle));
    let other = Handle("trainyard-0".into());
    assert_eq!(place.executor.reattach(&task, Some(&other)).await.unwrap(), None);
}

#[tokio::test]
async fn logs_are_those_of_its_pods() {
    let place = KubernetesFixture::with(json!({})).await;
    let handle = place.submit(&place.task_on("rl", 2)).await;
    let pods = place.server.pod_names();
    place.server.log(&pods[0], "error: no such file\n");
    let text = place.executor.logs(&handle).await.unwrap();
    let expected = format!(
        "Pod {}:\nerror: no such file\nPod {}:\ncontainer \"attempt\" in pod \"{1}\" is waiting to start: \
         ContainerCreating\n",
        pods[0], pods[1]
    );
    assert_eq!(text, expected);
    assert_eq!(place.executor.logs(&Handle("trainyard-0".into())).await.unwrap(), "");
}

#[tokio::test]
async fn an_explanation_has_the_events() {
    let place = KubernetesFixture::with(json!({})).await;
    let handle = place.submit(&place.task("sft")).await;
    let pod = place.server.pod_names().pop().unwrap();
    place.server.event(&pod, "FailedScheduling", "0/3 nodes are available");
    place.server.event("another", "FailedScheduling", "not about it");
    let words = place.executor.explain(&handle).await.unwrap().unwrap();
    assert!(words.starts_with(&format!("Job {} in namespace ml", handle.0)), "{words}");
    assert!(words.contains("warning: FailedScheduling: 0/3 nodes are available"), "{words}");
    assert!(!words.contains("not about it"), "{words}");
    assert_eq!(place.executor.explain(&Handle("trainyard-0".into())).await.unwrap(), None);
}
