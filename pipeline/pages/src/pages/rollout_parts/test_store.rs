//! Store of tests of the pages: an artifact of trajectories with hostile text, and a plain table.

use crate::{PageAccess, PageAddress, PageState, router};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Method, Request, Response};
use serde_json::json;
use std::sync::{Arc, LazyLock};
use tower::ServiceExt as _;
use trainyard_core::artifact::TableSummary;
use trainyard_core::clock::ManualClock;
use trainyard_core::{ArtifactKind, Digest, FileEntry, Manifest, Output};
use trainyard_store::{Store, StoreOptions};
use trainyard_tables::{AnswerCheck, Message, TableBuilder, Trajectory, Verdict, write_trajectories};

/// Text that must stay text.
pub const HOSTILE: &str = "<script>alert(1)</script>\u{202e}\u{1b}[31m";
/// Secret of forms.
const SECRET: &str = "a secret";

/// Returns the address of a page of an output, `rollouts` or `numbers`.
pub fn address(output: &str, rest: &str) -> String {
    format!("/artifacts/{}/{output}/{rest}", Digest::of(b"s"))
}

/// Returns rollout `sample` of problem `problem` for an update.
pub fn rollout(update: u32, problem: u32, sample: u32) -> Trajectory {
    let reward = f64::from((update + problem + sample) % 2);
    let call = Message {
        tool_calls: Some(r#"[{"name": "python", "arguments": {"code": "print(2)\nprint(3)"}}]"#.into()),
        reasoning_content: Some("let me think".into()),
        ..Message::new("assistant", format!("I am number {sample}. {HOSTILE}"))
    };
    let result = Message { name: Some("python".into()), ..Message::new("tool", "2\n3") };
    Trajectory {
        id: format!("step-{update}/p{problem}/{sample}"),
        problem_id: format!("p/{problem}"),
        group: problem,
        sample,
        update: Some(update),
        messages: vec![
            Message::new("user", format!("What is {problem} + 1? {HOSTILE}")),
            call,
            result,
            Message::new("assistant", "It is [5](javascript:alert(1))."),
        ],
        token_ids: vec![7, 8, 9, 10],
        loss_mask: vec![false, true, true, true],
        turn: vec![0, 0, 0, 1],
        logprobs: Some(vec![0.0, -0.5, -2.0, -1.0]),
        advantages: Some(vec![0.0, 0.5, -1.5, 0.5]),
        restarts: vec![3],
        turns: 2,
        tool_calls: 1,
        level: 1 + problem,
        reward,
        rewards: [("verdict".to_string(), reward), ("<b>format</b>".to_string(), 0.25)].into(),
        answer_check: Some(AnswerCheck::whole("5", HOSTILE, "numeric", reward == 1.0)),
        verdicts: vec![Verdict { rule: "overlong".into(), keep: sample > 0, reason: format!("too long {HOSTILE}") }],
        fork_of: (sample == 2).then(|| format!("step-{update}/p{problem}/0")),
        fork_at: (sample == 2).then_some(2),
        ..Trajectory::default()
    }
}

/// Returns 3 updates of 2 problems with 3 rollouts each.
pub fn rollouts() -> Vec<Trajectory> {
    let of_update = |update| (0..2).flat_map(move |problem| (0..3).map(move |sample| rollout(update, problem, sample)));
    (0..3).flat_map(of_update).collect()
}

/// Returns the pages of a store with these rollouts, and the store.
pub async fn pages(rows: &[Trajectory], may_change: bool) -> (Router, Store) {
    let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("a.parquet"), folder.path().join("b.parquet"));
    write_trajectories(&first, rows).unwrap();
    TableBuilder::new().i64("n", 0..3).string("text", [HOSTILE, "b", "c"].map(str::to_string)).write(&second).unwrap();
    let mut outputs = serde_json::Map::new();
    for (name, kind, path) in
        [("rollouts", ArtifactKind::Trajectories, first), ("numbers", ArtifactKind::Table, second)]
    {
        let (digest, size) = store.put_object(std::fs::read(&path).unwrap().into()).await.unwrap();
        let file = json!({"path": "data.parquet", "digest": digest, "size": size});
        let file: FileEntry = serde_json::from_value(file).unwrap();
        let table = TableSummary { rows: 0, columns: Vec::new(), preview: Vec::new() };
        let output = Output::new(kind, vec![file], Some(table), Default::default()).unwrap();
        outputs.insert(name.to_string(), serde_json::to_value(output).unwrap());
    }
    let manifest = json!({
        "format": 1, "stage_digest": Digest::of(b"s"), "generation": 0, "kind": "rl", "kind_version": 1,
        "config": {}, "inputs": {}, "outputs": outputs, "metrics": {},
        "provenance": {"workflow": "w", "run": "r", "stage": "s", "attempt": 1},
    });
    let manifest: Manifest = serde_json::from_value(manifest).unwrap();
    store.publish(&manifest).await.unwrap();
    let state = PageState {
        store: store.clone(),
        clock: Arc::new(ManualClock::at_millis(1_795_234_530_000)),
        access: PageAccess::Open { secret: SECRET.to_string(), may_change },
        address: PageAddress::new("127.0.0.1:7878".parse().unwrap(), None).unwrap(),
        version: "0.0.0",
        daemon: None,
        catalogue: LazyLock::new(Box::new(crate::PageCatalogue::default)),
        queries: crate::PageQueries::default(),
    };
    (router(Arc::new(state)), store)
}

/// Sends a request; a form is sent from a page of the same origin.
pub async fn send(pages: &Router, method: Method, path: &str, form: &str) -> Response<Body> {
    let mut request = Request::builder().method(method).uri(path).header("host", "127.0.0.1:7878");
    if !form.is_empty() {
        request = request
            .header("origin", "http://127.0.0.1:7878")
            .header("content-type", "application/x-www-form-urlencoded");
    }
    pages.clone().oneshot(request.body(Body::from(form.to_string())).unwrap()).await.unwrap()
}

/// Returns the status and the text of a page.
pub async fn get(pages: &Router, path: &str) -> (u16, String) {
    let response = send(pages, Method::GET, path, "").await;
    let status = response.status().as_u16();
    (status, text(response).await)
}

/// Returns the text of a response.
pub async fn text(response: Response<Body>) -> String {
    String::from_utf8(to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec()).unwrap()
}

/// Returns the HTML of a page, whose hostile text must be text.
pub async fn page(pages: &Router, path: &str) -> String {
    let (status, html) = get(pages, path).await;
    assert_eq!(status, 200, "{path}: {html}");
    for wrong in ["<script>alert", "\u{202e}", "\u{1b}", "href=\"javascript:", "<b>format"] {
        assert!(!html.contains(wrong), "{path} has {wrong:?}");
    }
    html
}

/// Returns the number of elements of a page.
pub fn elements(html: &str) -> usize {
    let begins = |pair: &[u8]| pair[0] == b'<' && pair[1].is_ascii_alphabetic();
    html.as_bytes().windows(2).filter(|pair| begins(pair)).count()
}
