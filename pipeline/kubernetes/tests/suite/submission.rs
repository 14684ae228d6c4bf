//! Tests submissions: a Job is created once per attempt, and refusals have a hint.

use crate::fixture::KubernetesFixture;
use crate::server::{Fault, Server, failed};
use serde_json::json;
use trainyard_core::ErrorKind;
use trainyard_kubernetes::KubernetesExecutor;
use trainyard_runtime::executors::{AttemptState, Executor, Handle};
use trainyard_store::{Store, StoreOptions};

async fn refusal(fixture: &KubernetesFixture) -> trainyard_core::Error {
    fixture.executor.submit(&[fixture.task("sft")]).await.pop().unwrap().unwrap_err()
}

#[tokio::test]
async fn repeated_submission_finds_the_first() {
    let fixture = KubernetesFixture::with(json!({})).await;
    let task = fixture.task("sft");
    let handle = fixture.submit(&task).await;
    assert_eq!(handle, Handle(task.key()));
    assert_eq!(fixture.submit(&task).await, handle);
    assert_eq!(fixture.server.jobs().len(), 1);
    let job = &fixture.server.jobs()[0];
    assert_eq!(job["metadata"]["annotations"]["trainyard.dev/url"], task.url());
}

#[tokio::test]
async fn job_with_lost_response_is_found() {
    let fixture = KubernetesFixture::with(json!({})).await;
    fixture.server.fault("create jobs", Fault::LostAnswer);
    assert_eq!(refusal(&fixture).await.kind, ErrorKind::Retryable);
    let task = fixture.task("sft");
    assert_eq!(fixture.submit(&task).await, Handle(task.key()));
    assert_eq!(fixture.server.jobs().len(), 1);
}

#[tokio::test]
async fn many_attempts_are_submitted_in_order_and_polled_together() {
    let fixture = KubernetesFixture::with(json!({})).await;
    let tasks: Vec<_> = (0..200).map(|n| fixture.task(&format!("noop[n={n}]"))).collect();
    let handles: Vec<Handle> = fixture.executor.submit(&tasks).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(handles, tasks.iter().map(|task| Handle(task.key())).collect::<Vec<_>>());
    fixture.run_pods();
    let before = fixture.server.requests().len();
    let states = fixture.executor.poll(&handles).await.unwrap();
    assert_eq!(states, vec![AttemptState::Started; 200]);
    assert_eq!(fixture.server.requests().len() - before, 4, "Jobs and Pods of a hundred attempts at a time");
}

#[tokio::test]
async fn one_refusal_does_not_affect_other_tasks() {
    let fixture = KubernetesFixture::with(json!({})).await;
    let failure = failed(500, "InternalError", "etcdserver: request timed out", json!({}));
    fixture.server.fault("create jobs", Fault::Answer(500, failure));
    let tasks = [fixture.task("a"), fixture.task("b"), fixture.task("c")];
    let results = fixture.executor.submit(&tasks).await;
    let kinds: Vec<_> = results.iter().filter_map(|a| a.as_ref().err().map(|e| e.kind)).collect();
    assert_eq!(kinds, [ErrorKind::Retryable]);
    assert_eq!(fixture.server.jobs().len(), 2);
}

#[tokio::test]
async fn missing_permission_is_reported() {
    let fixture = KubernetesFixture::with(json!({})).await;
    fixture.server.deny("create jobs");
    let error = refusal(&fixture).await;
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("cannot create resource \"jobs\""), "{error}");
    assert!(error.help.unwrap().contains("allow this account to create jobs in `ml`"));
    fixture.server.deny("list pods");
    let error = fixture.executor.poll(&[Handle("trainyard-0".into())]).await.unwrap_err();
    assert!(error.message.contains("cannot list pods"), "{error}");
}

#[tokio::test]
async fn unauthenticated_client_is_reported() {
    let server = Server::still().await;
    let path = server.kubeconfig_with(|config| config["contexts"][0]["context"]["user"] = json!("stranger"));
    let fixture = KubernetesFixture::on(server, json!({"kubeconfig": path})).await;
    let error = refusal(&fixture).await;
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("(401)"), "{error}");
}

#[tokio::test]
async fn missing_namespace_is_reported() {
    let fixture = KubernetesFixture::with(json!({"namespace": "elsewhere"})).await;
    let error = refusal(&fixture).await;
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("\"elsewhere\" not found"), "{error}");
}

#[tokio::test]
async fn rejected_field_is_reported() {
    let fixture = KubernetesFixture::with(json!({"labels": {"team/a/b": "rl"}})).await;
    let error = refusal(&fixture).await;
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("`metadata.labels`: Invalid value"), "{error}");
}

#[tokio::test]
async fn unreachable_server_is_retryable() {
    let fixture = KubernetesFixture::with(json!({})).await;
    fixture.server.fault("create jobs", Fault::Refused);
    assert_eq!(refusal(&fixture).await.kind, ErrorKind::Retryable);
    let KubernetesFixture { server, executor, .. } = fixture;
    drop(server);
    let error = executor.poll(&[Handle("trainyard-0".into())]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Retryable, "{error}");
}

#[tokio::test]
async fn store_unreachable_from_pods_is_refused_before_any_request() {
    let fixture = KubernetesFixture::with(json!({"shared_filesystem": false})).await;
    let error = refusal(&fixture).await;
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("cannot reach the store"), "{error}");
    let fixture = KubernetesFixture::with(json!({})).await;
    let mut task = fixture.task("sft");
    task.store = Store::open("memory://", StoreOptions::default()).await.unwrap();
    let error = fixture.executor.submit(&[task]).await.pop().unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(fixture.server.requests().is_empty());
}

#[tokio::test]
async fn missing_kubeconfig_is_reported() {
    let fixture = KubernetesFixture::with(json!({"kubeconfig": "/nowhere/config"})).await;
    let error = refusal(&fixture).await;
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.causes().any(|cause| cause.contains("/nowhere/config")), "{error:?}");
    let server = Server::still().await;
    let fixture = KubernetesFixture::on(server, json!({"context": "another"})).await;
    // The fixture's option `kubeconfig` has no context with this name.
    let error = refusal(&fixture).await;
    assert!(error.causes().any(|cause| cause.contains("another")), "{error:?}");
}

#[tokio::test]
async fn capabilities_follow_options() {
    let fixture = KubernetesFixture::with(json!({})).await;
    let can = fixture.executor.capabilities();
    assert!(can.outlives_engine && can.shares_files && !can.relays);
    assert_eq!(KubernetesExecutor::NAME, trainyard_kubernetes::kind().name);
    assert!(!trainyard_kubernetes::kind().on_this_machine);
}
