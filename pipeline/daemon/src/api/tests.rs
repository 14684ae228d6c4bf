//! Tests the OpenAPI document against the server: every path responds, every response matches its schema, and
//! unauthorized requests are rejected.

use super::openapi::document;
use super::routes;
use super::server::router;
use super::state::ApiState;
use super::tokens::ApiTokens;
use crate::daemon::DaemonShared;
use crate::log::ScheduleLog;
use crate::schedule::event::{Definition, ScheduleEvent};
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, StatusCode, header};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tower::ServiceExt as _;
use trainyard_core::artifact::TableSummary;
use trainyard_core::clock::ManualClock;
use trainyard_core::event::{Event, EventRecord};
use trainyard_core::{ArtifactKind, Chance, Digest, Manifest, Output, RunId, StageKey};
use trainyard_spec::Schedule;
use trainyard_store::{AttemptStream, JournalWriter, Store, StoreOptions};

/// 2026-11-21T04:15:30Z.
const NOW: i64 = 1_795_234_530_000;
const RUN: &str = "20261121-041530-0000abc";

/// Creates a store with a schedule, a finished run and its artifacts.
async fn filled() -> (Store, Manifest) {
    let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
    let definition = Definition {
        schedule: Schedule::cron("0 * * * *", "Europe/Paris"),
        file: "nightly.yaml".into(),
        home: "here".into(),
        texts: Digest::of(b"texts"),
    };
    let mut log = ScheduleLog::open(&store, "nightly").await.unwrap();
    log.append(NOW - 86_400_000, "test", |_| Some(ScheduleEvent::Defined { definition: definition.clone() }))
        .await
        .unwrap();
    let manifest = publish(&store).await;
    write_run(&store, &manifest).await;
    (store, manifest)
}

async fn publish(store: &Store) -> Manifest {
    let (digest, size) = store.put_object("rows".into()).await.unwrap();
    let file = json!({"path": "data.parquet", "digest": digest, "size": size});
    let table = TableSummary { rows: 2, columns: Vec::new(), preview: vec![json!({"id": 1})] };
    let files = vec![serde_json::from_value(file).unwrap()];
    let output = Output::new(ArtifactKind::Table, files, Some(table), Default::default()).unwrap();
    let config = r#"{"model_type": "llama", "num_hidden_layers": 2}"#;
    let (digest, size) = store.put_object(config.into()).await.unwrap();
    let file = json!({"path": "config.json", "digest": digest, "size": size});
    let files = vec![serde_json::from_value(file).unwrap()];
    let model = Output::new(ArtifactKind::Model, files, None, Default::default()).unwrap();
    let stage_digest = Digest::of(b"stage");
    let before = json!({
        "stage_digest": Digest::of(b"before"), "generation": 0, "output": "x", "kind": "table",
        "digest": Digest::of(b"x"),
    });
    let manifest = json!({
        "format": 1, "stage_digest": stage_digest, "generation": 0, "kind": "run", "kind_version": 1,
        "config": {"argv": ["true"]}, "inputs": {"from": [before]}, "outputs": {"model": model, "rows": output},
        "metrics": {"x": 1.5},
        "provenance": {"workflow": "nightly", "run": RUN, "stage": "one", "attempt": 1},
    });
    let manifest: Manifest = serde_json::from_value(manifest).unwrap();
    store.publish(&manifest).await.unwrap();
    manifest
}

async fn write_run(store: &Store, manifest: &Manifest) {
    let event = |value: Value| {
        EventRecord { at: NOW, event: serde_json::from_value::<Event>(value).unwrap() }.to_value().unwrap()
    };
    let run = RunId(RUN.into());
    let opened = |epoch| event(json!({"type": "writer_opened", "epoch": epoch, "writer": "test"}));
    let (mut writer, _) = JournalWriter::open(store, &run, "test", opened).await.unwrap();
    let digest = &manifest.stage_digest;
    let outputs = trainyard_core::event::summarize_outputs(manifest);
    let events = [
        json!({
            "type": "run_created", "format": 1, "workflow": "nightly", "source": "/w/nightly.yaml",
            "plan_digest": Digest::of(b"plan"), "params": {"tick": "2026-11-21T04:00:00Z"},
            "stages": [{"stage": "one", "kind": "run"}, {"stage": "two", "kind": "run", "after": ["one"]}],
        }),
        json!({"type": "stage_digested", "stage": "one", "digest": digest, "why": "it is new"}),
        json!({
            "type": "attempt_started", "stage": "one", "attempt": 1, "digest": digest, "pool": "local",
            "grant": {"cpus": 1},
        }),
        json!({"type": "attempt_ended", "stage": "one", "attempt": 1, "outcome": "succeeded"}),
        json!({
            "type": "published", "stage": "one", "attempt": 1, "digest": digest, "generation": 0,
            "metrics": {"x": 1.5}, "outputs": outputs,
        }),
        json!({"type": "run_finished", "outcome": "succeeded"}),
    ];
    writer.append(&events.map(event)).await.unwrap();
    let point = "{\"type\":\"metric\",\"name\":\"loss\",\"step\":1,\"value\":0.5}\n";
    store.put_chunk(&run, &StageKey("one".into()), 1, AttemptStream::Metrics, 0, point.into()).await.unwrap();
    let line = "{\"at\":1795234530042,\"level\":\"info\",\"text\":\"hello\"}\n";
    store.put_chunk(&run, &StageKey("one".into()), 1, AttemptStream::Log, 0, line.into()).await.unwrap();
}

fn app(store: &Store, tokens: ApiTokens) -> Arc<ApiState> {
    Arc::new(ApiState {
        store: store.clone(),
        clock: Arc::new(ManualClock::at_millis(NOW)),
        chance: Chance::new(1),
        daemon: Arc::new(DaemonShared::default()),
        tokens,
        version: "0.0.0",
        changes: AtomicU64::new(0),
    })
}

fn tokens() -> ApiTokens {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    std::fs::write(&path, "operator alice operator-token-1234\nviewer bob viewer-token-12345\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    ApiTokens::read(&path).unwrap()
}

fn request(method: Method, path: &str) -> axum::http::request::Builder {
    Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:8675")
}

async fn send(app: &Arc<ApiState>, request: Request<Body>) -> (StatusCode, Value) {
    let response = router(app.clone()).oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap_or_else(|e| panic!("{status}: {e}: {bytes:?}")))
}

async fn get(app: &Arc<ApiState>, path: &str) -> (StatusCode, Value) {
    send(app, request(Method::GET, path).body(Body::empty()).unwrap()).await
}

async fn post(app: &Arc<ApiState>, path: &str, body: &Value) -> (StatusCode, Value) {
    let request = request(Method::POST, path).header(header::CONTENT_TYPE, "application/json");
    send(app, request.body(Body::from(body.to_string())).unwrap()).await
}

/// Asserts that a value matches a schema of the document.
#[track_caller]
fn assert_fits(document: &Value, schema: &Value, value: &Value, what: &str) {
    let mut whole = schema.clone();
    if let Value::Object(whole) = &mut whole {
        whole.insert("components".into(), document["components"].clone());
    }
    let validator = jsonschema::validator_for(&whole).unwrap_or_else(|e| panic!("{what}: {e}"));
    let wrong: Vec<String> = validator.iter_errors(value).map(|e| format!("{e} at {}", e.instance_path())).collect();
    assert!(wrong.is_empty(), "{what}: {wrong:?}\n{value:#}");
}

/// Returns a valid body of a route.
fn body_of(id: &str) -> Value {
    match id {
        "pause_schedule" => json!({"why": "to see"}),
        "backfill_schedule" => json!({"from": "2026-11-20", "to": "2026-11-20", "concurrency": 2}),
        _ => json!({}),
    }
}

#[tokio::test]
async fn every_documented_path_responds_as_specified() {
    let (store, manifest) = filled().await;
    let app = app(&store, ApiTokens::default());
    let document = document(&routes::all());
    let (_, backfill) = post(&app, "/api/v1/schedules/nightly/backfills", &body_of("backfill_schedule")).await;
    let digest = manifest.stage_digest.to_string();
    let mut seen = 0;
    for (path, operations) in document["paths"].as_object().unwrap() {
        let real = path
            .replace("{run}", RUN)
            .replace("{digest}", &digest)
            .replace("{output}", "rows")
            .replace("{name}", "nightly")
            .replace("{backfill}", backfill["id"].as_str().unwrap());
        for (method, operation) in operations.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            let (status, value) = if method == "get" {
                let query = if id == "logs" || id == "curves" { "?stage=one" } else { "" };
                get(&app, &format!("{real}{query}")).await
            } else {
                let body = body_of(id);
                assert_fits(&document, &operation["requestBody"]["content"]["application/json"]["schema"], &body, id);
                post(&app, &real, &body).await
            };
            assert_eq!(status, StatusCode::OK, "{id}: {value}");
            let schema = &operation["responses"]["200"]["content"]["application/json"]["schema"];
            assert_fits(&document, schema, &value, id);
            seen += 1;
        }
    }
    assert_eq!(seen, routes::all().len(), "every route is in the document, once");
    let ids: BTreeSet<&str> = routes::all().iter().map(|route| route.id).collect();
    assert_eq!(ids.len(), seen, "ids are unique");
}

#[tokio::test]
async fn errors_match_the_documented_schema() {
    let (store, _) = filled().await;
    let app = app(&store, ApiTokens::default());
    let document = document(&routes::all());
    let schema = json!({"$ref": "#/components/schemas/ErrorBody"});
    let missing = Digest::of(b"missing").to_string();
    for (path, expected) in [
        ("/api/v1/runs/20200101-000000-0000000".to_string(), 404),
        ("/api/v1/runs/..%2F..%2Fobjects".to_string(), 404),
        (format!("/api/v1/runs/{RUN}/logs?stage=none"), 404),
        (format!("/api/v1/runs/{RUN}/logs"), 400),
        (format!("/api/v1/runs/{RUN}/curves?stage=none"), 404),
        ("/api/v1/runs?limit=many".to_string(), 400),
        ("/api/v1/runs?limits=3".to_string(), 400),
        (format!("/api/v1/artifacts/{missing}/x"), 404),
        ("/api/v1/lineage/nonsense".to_string(), 404),
        ("/api/v1/schedules/daily".to_string(), 404),
        ("/api/v2/runs".to_string(), 404),
        ("/api/v1/schedules/nightly/pause".to_string(), 405),
    ] {
        let (status, value) = get(&app, &path).await;
        assert_eq!(status.as_u16(), expected, "{path}: {value}");
        assert_fits(&document, &schema, &value, &path);
    }
    let backfill = "/api/v1/schedules/nightly/backfills";
    for (path, body, expected) in [
        ("/api/v1/schedules/daily/pause", json!({}), 404),
        ("/api/v1/schedules/nightly/pause", json!({"reason": "x"}), 422),
        (backfill, json!({"from": "2027-01-01", "to": "2027-01-02"}), 400),
        (backfill, json!({"from": "yesterday", "to": "2026-11-20"}), 400),
        (backfill, json!({"from": "2026-11-20", "to": "2026-11-20", "concurrency": 0}), 400),
        ("/api/v1/schedules/nightly/backfills/none/cancel", json!({}), 404),
        ("/api/v1/schedules/nightly/pause", json!({"why": "x".repeat(100_000)}), 413),
    ] {
        let (status, value) = post(&app, path, &body).await;
        assert_eq!(status.as_u16(), expected, "{path} {body}: {value}");
        assert_fits(&document, &schema, &value, path);
    }
    let plain = request(Method::POST, "/api/v1/schedules/nightly/pause").body(Body::from("{}")).unwrap();
    assert_eq!(send(&app, plain).await.0, StatusCode::UNSUPPORTED_MEDIA_TYPE, "a form of any page could send it");
}

#[tokio::test]
async fn root_lists_all_paths_and_a_missing_parameter_is_named() {
    let (store, _) = filled().await;
    let app = app(&store, ApiTokens::default());
    assert_eq!(get(&app, "/api").await.0, StatusCode::NOT_FOUND);
    for path in ["/api/v1", "/api/v1/"] {
        let (status, index) = get(&app, path).await;
        assert_eq!((status, &index["openapi"]), (StatusCode::OK, &json!("/api/v1/openapi.json")), "{path}");
        let paths = index["paths"].as_array().unwrap();
        assert_eq!(paths.len(), routes::all().len());
        assert!(paths.iter().any(|p| p["path"] == "/api/v1/runs/{run}/logs" && p["method"] == "GET"), "{index}");
    }
    let (status, value) = get(&app, &format!("/api/v1/runs/{RUN}/logs")).await;
    let error = &value["error"];
    assert_eq!((status.as_u16(), &error["message"]), (400, &json!("the query has no parameter `stage`")));
    assert!(error["help"].as_str().unwrap().starts_with("add `?stage=…` to the path; "), "{error}");
    let (_, value) = get(&app, "/api/v1/runs?limits=3").await;
    assert!(value["error"]["message"].as_str().unwrap().contains("unknown field `limits`"), "{value}");
}

#[tokio::test]
async fn lists_are_paginated() {
    let (store, manifest) = filled().await;
    let other = RunId("20261121-041531-0000abd".into());
    let opened = |epoch| json!({"type": "writer_opened", "epoch": epoch, "writer": "test", "at": NOW});
    JournalWriter::open(&store, &other, "test", opened).await.unwrap();
    let app = app(&store, ApiTokens::default());
    let (_, first) = get(&app, "/api/v1/runs?limit=1").await;
    assert_eq!((&first["runs"][0]["run"], &first["next"]), (&json!(other), &json!(other)));
    let (_, second) = get(&app, &format!("/api/v1/runs?limit=1&before={other}")).await;
    assert_eq!((&second["runs"][0]["run"], &second["next"]), (&json!(RUN), &Value::Null));
    assert_eq!(second["runs"][0]["status"], "succeeded");
    let (_, page) = get(&app, &format!("/api/v1/runs/{RUN}?limit=1")).await;
    assert_eq!((page["page"].as_array().unwrap().len(), &page["next"]), (1, &json!(1)));
    let (_, rest) = get(&app, &format!("/api/v1/runs/{RUN}?limit=1&from=1")).await;
    assert_eq!((&rest["page"][0]["stage"], &rest["next"]), (&json!("two"), &Value::Null));
    let (_, log) = get(&app, &format!("/api/v1/runs/{RUN}/logs?stage=one")).await;
    assert_eq!((&log["records"][0]["text"], &log["next"]), (&json!("hello"), &json!(1)));
    let (_, curves) = get(&app, &format!("/api/v1/runs/{RUN}/curves?stage=one")).await;
    assert_eq!(curves["points"], json!([{"name": "loss", "step": 1, "value": 0.5}]));
    let (_, after) = get(&app, &format!("/api/v1/runs/{RUN}/logs?stage=one&from=1")).await;
    assert_eq!(after["records"], json!([]));
    let (_, lineage) = get(&app, &format!("/api/v1/lineage/{}", manifest.stage_digest)).await;
    assert_eq!(lineage["stages"].as_array().unwrap().len(), 2, "{lineage}");
}

#[tokio::test]
async fn a_model_is_shown_with_its_parts() {
    let (store, manifest) = filled().await;
    let app = app(&store, ApiTokens::default());
    let of = async |output: &str| get(&app, &format!("/api/v1/artifacts/{}/{output}", manifest.stage_digest)).await;
    let (status, page) = of("model").await;
    assert_eq!((status, &page["model"]["architecture"]["family"]), (StatusCode::OK, &json!("llama")), "{page}");
    assert_eq!(page["model"]["architecture"]["layers"], 2);
    assert_eq!((&page["model"]["parameters"], &page["model"]["unreadable"]), (&Value::Null, &json!([])));
    let steps = page["model"]["made_from"].as_array().unwrap();
    assert_eq!((steps.len(), &steps[0]["inputs"][0]["is_stored"]), (1, &json!(false)), "{page}");
    let document = document(&routes::all());
    let operation = &document["paths"]["/api/v1/artifacts/{digest}/{output}"]["get"];
    assert_fits(&document, &operation["responses"]["200"]["content"]["application/json"]["schema"], &page, "artifact");
    assert_eq!(of("rows").await.1["model"], Value::Null);
}

#[tokio::test]
async fn changes_are_recorded_in_the_log() {
    let (store, _) = filled().await;
    let app = app(&store, ApiTokens::default());
    let path = "/api/v1/schedules/nightly";
    assert_eq!(post(&app, &format!("{path}/pause"), &json!({"why": "to see"})).await.1, json!({"changed": true}));
    assert_eq!(post(&app, &format!("{path}/pause"), &json!({})).await.1, json!({"changed": false}));
    let (_, page) = get(&app, path).await;
    assert_eq!((&page["status"], &page["paused"]["by"]), (&json!("paused"), &json!("api:local")));
    assert_eq!(page["next"], Value::Null);
    assert_eq!(post(&app, &format!("{path}/resume"), &json!({})).await.1, json!({"changed": true}));
    let (_, tick) = post(&app, &format!("{path}/trigger"), &json!({})).await;
    let (_, page) = get(&app, path).await;
    assert_eq!(page["waiting"][0]["run"], tick["run"]);
    // 04:15:30Z is 05:15:30 in Paris.
    assert_eq!(
        (&page["next"], &page["next_local"]),
        (&json!("2026-11-21T05:00:00Z"), &json!("2026-11-21 06:00:00 CET"))
    );
    let log = ScheduleLog::open(&store, "nightly").await.unwrap();
    assert_eq!(log.state().own().count(), 1);
}

#[tokio::test]
async fn roles_limit_access() {
    let (store, _) = filled().await;
    let app = app(&store, tokens());
    let status = async |method: Method, path: &str, token: Option<&str>| {
        let mut request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, "application/json");
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        send(&app, request.body(Body::from("{}")).unwrap()).await.0.as_u16()
    };
    let (runs, pause) = ("/api/v1/runs", "/api/v1/schedules/nightly/pause");
    assert_eq!(status(Method::GET, "/api/v1/health", None).await, 200);
    for path in ["/api/v1/runs", "/api/v1/openapi.json", "/api/v1/version", "/api/v1/nothing"] {
        assert_eq!(status(Method::GET, path, None).await, 401, "{path}");
    }
    assert_eq!(status(Method::GET, runs, Some("wrong-token-123456")).await, 401);
    assert_eq!(status(Method::GET, runs, Some("viewer-token-12345")).await, 200);
    assert_eq!(status(Method::POST, pause, Some("viewer-token-12345")).await, 403);
    assert_eq!(status(Method::POST, pause, None).await, 401);
    assert_eq!(status(Method::POST, pause, Some("operator-token-1234")).await, 200);
    let page = crate::operations::show(&store, "nightly", NOW).await.unwrap();
    assert_eq!(page.paused.unwrap().by, "api:alice");
}

#[tokio::test]
async fn cookies_open_nothing() {
    let (store, _) = filled().await;
    let app = app(&store, tokens());
    for name in ["trainyard_8675", "token"] {
        let cookie = format!("{name}=operator-token-1234");
        let request = request(Method::GET, "/api/v1/runs").header(header::COOKIE, cookie);
        assert_eq!(send(&app, request.body(Body::empty()).unwrap()).await.0, StatusCode::UNAUTHORIZED);
    }
}

#[tokio::test]
async fn only_local_requests_are_accepted_without_tokens() {
    let (store, _) = filled().await;
    let app = app(&store, ApiTokens::default());
    let status = async |host: &str, origin: Option<&str>| {
        let mut request = Request::builder().uri("/api/v1/runs").header(header::HOST, host);
        if let Some(origin) = origin {
            request = request.header(header::ORIGIN, origin);
        }
        send(&app, request.body(Body::empty()).unwrap()).await.0.as_u16()
    };
    assert_eq!(status("localhost:8675", None).await, 200);
    assert_eq!(status("evil.example:8675", None).await, 403);
    assert_eq!(status("127.0.0.1:8675", Some("http://127.0.0.1:8675")).await, 200);
    assert_eq!(status("127.0.0.1:8675", Some("https://evil.example")).await, 403);
    let unprotected = super::bind("0.0.0.0:0".parse().unwrap(), &ApiTokens::default()).await;
    assert!(unprotected.unwrap_err().message.contains("the server requires no token"));
}
