//! Requests to the pages of a store in memory, and runs in it, for the tests of pages.

use crate::catalogue::PageCatalogue;
use crate::{PageAccess, PageAddress, PageState, router};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode, header};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::{Arc, LazyLock};
use tower::ServiceExt as _;
use trainyard_core::clock::ManualClock;
use trainyard_core::{ArtifactKind, Digest, FileEntry, Manifest, Output, RunId};
use trainyard_store::{JournalWriter, Store};
use trainyard_tables::summarize;

/// 2026-11-21T04:15:30Z.
pub const NOW: i64 = 1_795_234_530_000;
/// Header of requests by `ada`.
pub const COOKIE: (&str, &str) = ("cookie", "trainyard_7878=a-long-token");
/// Origin of the forms of these pages.
pub const ORIGIN: (&str, &str) = ("origin", "http://127.0.0.1:7878");

/// Returns the pages of a store, for a user who may make changes or not.
pub fn pages(store: &Store, may_change: bool) -> Router {
    pages_with(store, may_change, PageCatalogue::default())
}

/// Returns the pages of a store with this catalogue.
pub fn pages_with(store: &Store, may_change: bool, catalogue: PageCatalogue) -> Router {
    let find = move |token: &str| (token == "a-long-token").then(|| ("ada".to_string(), may_change));
    router(Arc::new(PageState {
        store: store.clone(),
        clock: Arc::new(ManualClock::at_millis(NOW)),
        access: PageAccess::Token(Box::new(find)),
        address: PageAddress::new("127.0.0.1:7878".parse().unwrap(), None).unwrap(),
        version: "0.0.0",
        daemon: None,
        catalogue: LazyLock::new(Box::new(move || catalogue)),
        queries: crate::PageQueries::default(),
    }))
}

/// Returns the status and the text of a page.
pub async fn get(pages: &Router, path: &str) -> (StatusCode, String) {
    send(pages, Method::GET, path, &[COOKIE], String::new()).await
}

/// Sends a form.
pub async fn post(pages: &Router, path: &str, headers: &[(&str, &str)], form: &str) -> (StatusCode, String) {
    let kind = ("content-type", "application/x-www-form-urlencoded");
    let headers: Vec<(&str, &str)> = headers.iter().copied().chain([kind]).collect();
    send(pages, Method::POST, path, &headers, form.to_string()).await
}

async fn send(
    pages: &Router,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: String,
) -> (StatusCode, String) {
    let mut request = Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:7878");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = pages.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
    let status = response.status();
    let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

/// Returns the body of a form.
pub fn form(fields: &[(&str, &str)]) -> String {
    crate::links::query(fields).trim_start_matches('?').to_string()
}

/// Writes a run that succeeded; `more` follows the event of its creation, with a stage for each event's `stage`.
pub async fn write_run(store: &Store, run: &str, workflow: &str, params: Value, more: &[Value]) {
    let opened = |epoch| json!({"at": NOW, "type": "writer_opened", "epoch": epoch, "writer": "test"});
    let (mut writer, _) = JournalWriter::open(store, &RunId(run.into()), "test", opened).await.unwrap();
    let mut keys: Vec<&Value> = more.iter().map(|event| &event["stage"]).collect();
    keys.dedup();
    let stages: Vec<Value> = keys.iter().map(|key| json!({"stage": key, "kind": "rl", "main_metric": "x"})).collect();
    let mut events = vec![json!({
        "at": NOW, "type": "run_created", "format": 1, "workflow": workflow, "source": "w.yaml",
        "plan_digest": Digest::of(b"plan"), "params": params, "stages": stages,
    })];
    events.extend(more.iter().cloned());
    events.push(json!({"at": NOW + 1_000, "type": "run_finished", "outcome": "succeeded"}));
    writer.append(&events).await.unwrap();
}

/// Returns the event of a published stage without outputs.
pub fn published(stage: &str, metrics: &Value) -> Value {
    json!({
        "at": NOW, "type": "published", "stage": stage, "attempt": 1, "digest": Digest::of(stage.as_bytes()),
        "generation": 0, "metrics": metrics, "outputs": {},
    })
}

/// Puts a table into the store.
pub async fn table(store: &Store, path: &Path) -> Output {
    let (digest, size) = store.put_object(std::fs::read(path).unwrap().into()).await.unwrap();
    let file = FileEntry { path: "data.parquet".into(), digest, size };
    Output::new(ArtifactKind::Table, vec![file], Some(summarize(path).unwrap()), Default::default()).unwrap()
}

/// Publishes the outputs of a stage, and returns its digest.
pub async fn publish(store: &Store, name: &str, outputs: &[(&str, &Output)], config: Value) -> String {
    let outputs: serde_json::Map<String, Value> =
        outputs.iter().map(|(port, output)| ((*port).to_string(), serde_json::to_value(output).unwrap())).collect();
    let manifest = json!({
        "format": 1, "stage_digest": Digest::of(name.as_bytes()), "generation": 0, "kind": "evaluate",
        "kind_version": 1, "config": config, "inputs": {}, "outputs": outputs, "metrics": {},
        "provenance": {"workflow": "w", "run": "r", "stage": name, "attempt": 1},
    });
    let manifest: Manifest = serde_json::from_value(manifest).unwrap();
    store.publish(&manifest).await.unwrap();
    manifest.stage_digest.to_string()
}
