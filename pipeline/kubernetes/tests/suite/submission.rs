//! Jobs are created once per attempt, and refusals have a hint.

use crate::fixture::KubernetesFixture;
use crate::server::{Fault, Server, failed};
use serde_json::json;
use trainyard_core::ErrorKind;
use trainyard_kubernetes::KubernetesExecutor;
use trainyard_runtime::executors::{AttemptState, Executor, Handle};
use trainyard_store::{Store, StoreOptions};

async fn refusal(place: &KubernetesFixture) -> trainyard_core::Error {
    place.executor.submit(&[place.task("sft")]).await.pop().unwrap().unwrap_err()
}

#[tokio::test]
async fn a_second_submission_finds_the_first() {
    let place = KubernetesFixture::with(json!({})).await;
    let task = place.task("sft");
    let handle = place.submit(&task).await;
    assert_eq!(handle, Handle(task.key()));
    assert_eq!(place.submit(&task).await, handle);
    assert_eq!(place.server.jobs().len(), 1);
    let job = &place.server.jobs()[0];
    assert_eq!(job["metadata"]["annotations"]["trainyard.dev/url"], task.url());
}

#[tokio::test]
async fn a_job_whose_answer_was_lost_is_found() {
    let place = KubernetesFixture::with(json!({})).await;
    place.server.fault("create jobs", Fault::LostAnswer);
    assert_eq!(refusal(&place).await.kind, ErrorKind::Retryable);
    let task = place.task("sft");
    assert_eq!(place.submit(&task).await, Handle(task.key()));
    assert_eq!(place.server.jobs().len(), 1);
}

#[tokio::test]
async fn many_attempts_are_answered_in_order_and_looked_at_together() {
    let place = KubernetesFixture::with(json!({})).await;
    let tasks: Vec<_> = (0..200).map(|n| place.task(&format!("noop[n={n}]"))).collect();
    let handles: Vec<Handle> = place.executor.submit(&tasks).await.into_iter().map(Result::unwrap).collect();
    assert_eq!(handles, tasks.iter().map(|task| Handle(task.key())).collect::<Vec<_>>());
    place.run_pods();
    let before = place.server.requests().len();
    let states = place.executor.poll(&handles).await.unwrap();
    assert_eq!(states, vec![AttemptState::Started; 200]);
    assert_eq!(place.server.requests().len() - before, 4, "Jobs and Pods of a hundred attempts at a time");
}

#[tokio::test]
async fn one_refusal_does_not_stop_the_others() {
    let place = KubernetesFixture::with(json!({})).await;
    let told = failed(500, "InternalError", "etcdserver: request timed out", json!({}));
    place.server.fault("create jobs", Fault::Answer(500, told));
    let tasks = [place.task("a"), place.task("b"), place.task("c")];
    let answers = place.executor.submit(&tasks).await;
    let kinds: Vec<_> = answers.iter().filter_map(|a| a.as_ref().err().map(|e| e.kind)).collect();
    assert_eq!(kinds, [ErrorKind::Retryable]);
    assert_eq!(place.server.jobs().len(), 2);
}

#[tokio::test]
async fn an_account_without_the_right_is_told_which() {
    let place = KubernetesFixture::with(json!({})).await;
    place.server.deny("create jobs");
    let error = refusal(&place).await;
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("cannot create resource \"jobs\""), "{error}");
    assert!(error.help.unwrap().contains("let this account create jobs in `ml`"));
    place.server.deny("list pods");
    let error = place.executor.poll(&[Handle("trainyard-0".into())]).await.unwrap_err();
    assert!(error.message.contains("cannot list pods"), "{error}");
}

#[tokio::test]
async fn a_stranger_is_told_so() {
    let server = Server::still().await;
    let path = server.kubeconfig_with(|config| config["contexts"][0]["context"]["user"] = json!("stranger"));
    let place = KubernetesFixture::on(server, json!({"kubeconfig": path})).await;
    let error = refusal(&place).await;
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("(401)"), "{error}");
}

#[tokio::test]
async fn a_missing_namespace_is_named() {
    let place = KubernetesFixture::with(json!({"namespace": "elsewhere"})).await;
    let error = refusal(&place).await;
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("\"elsewhere\" not found"), "{error}");
}

#[tokio::test]
async fn what_the_server_does_not_accept_is_named_by_its_field() {
    let place = KubernetesFixture::with(json!({"labels": {"team/a/b": "rl"}})).await;
    let error = refusal(&place).await;
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("`metadata.labels`: Invalid value"), "{error}");
}

#[tokio::test]
async fn a_server_that_is_away_is_asked_again() {
    let place = KubernetesFixture::with(json!({})).await;
    place.server.fault("create jobs", Fault::Refused);
    assert_eq!(refusal(&place).await.kind, ErrorKind::Retryable);
    let KubernetesFixture { server, executor, .. } = place;
    drop(server);
    let error = executor.poll(&[Handle("trainyard-0".into())]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Retryable, "{error}");
}

#[tokio::test]
async fn a_store_that_pods_do_not_see_is_refused_before_anything_is_asked() {
    let place = KubernetesFixture::with(json!({"shared_filesystem": false})).await;
    let error = refusal(&place).await;
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("cannot see the store"), "{error}");
    let place = KubernetesFixture::with(json!({})).await;
    let mut task = place.task("sft");
    task.store = Store::open("memory://", StoreOptions::default()).await.unwrap();
    let error = place.executor.submit(&[task]).await.pop().unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(place.server.requests().is_empty());
}

#[tokio::test]
async fn a_kubeconfig_that_is_not_there_is_named() {
    let place = KubernetesFixture::with(json!({"kubeconfig": "/nowhere/config"})).await;
    let error = refusal(&place).await;
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.causes().any(|cause| cause.contains("/nowhere/config")), "{error:?}");
    let server = Server::still().await;
    let place = KubernetesFixture::on(server, json!({"context": "another"})).await;
    // The fixture's option `kubeconfig` has no context of this name.
    let error = refusal(&place).await;
    assert!(error.causes().any(|cause| cause.contains("another")), "{error:?}");
}

#[tokio::test]
async fn it_says_what_it_can_do() {
    let place = KubernetesFixture::with(json!({})).await;
    let can = place.executor.capabilities();
    assert!(can.outlives_engine && can.shares_files && !can.relays);
    assert_eq!(KubernetesExecutor::NAME, trainyard_kubernetes::kind().name);
    assert!(!trainyard_kubernetes::kind().on_this_machine);
}
