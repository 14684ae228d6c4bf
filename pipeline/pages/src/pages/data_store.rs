//! Store of tests of pages about data: a filter with its three outputs, a plain table, and a stage that reads them.

use super::rollout_parts::test_store::HOSTILE;
use crate::{PageAccess, PageAddress, PageQueries, PageState, router};
use axum::Router;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use trainyard_api::filter_tables::{EXAMPLES, REASONS, RULES};
use trainyard_api::report::{Curve, ReportCell, StageReport, Table};
use trainyard_core::clock::ManualClock;
use trainyard_core::{ArtifactKind, Digest, FileEntry, Manifest, Output};
use trainyard_store::{Store, StoreOptions};
use trainyard_tables::{Message, TableBuilder, Trajectory, Verdict, summarize, write_trajectories};

/// Returns the address of a page of an output of a stage.
pub fn address(stage: &str, output: &str, rest: &str) -> String {
    let digest = Digest::of(stage.as_bytes());
    if rest.is_empty() {
        format!("/artifacts/{digest}/{output}")
    } else {
        format!("/artifacts/{digest}/{output}/{rest}")
    }
}

/// Returns the pages of a store with the stages `filter`, `numbers` and `made`.
pub async fn pages(queries: PageQueries) -> Router {
    let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
    let kept = trajectories(&store, &[row("a", "What is 2 plus 3 ?", ""), row("q", "Other", "")]).await;
    let near = "near_duplicate: of a (0.913)";
    let rejected = [row("b", "What is 2 plus 4 ?", near), row("c", HOSTILE, "language: other")];
    let rejected = trajectories(&store, &rejected).await;
    let report = files(&store, ArtifactKind::Report, &[("report.json", report().into_bytes())]).await;
    let outputs = [("kept", kept), ("rejected", rejected), ("report", report)];
    let filter = publish(&store, ("filter", "data/filter"), json!({}), &outputs).await;
    let numbers = [("numbers", table(&store, write_numbers).await)];
    publish(&store, ("numbers", "data/import"), json!({}), &numbers).await;
    let many: Vec<(String, Vec<u8>)> = (0..250).map(|n| (format!("file-{n:03}{HOSTILE}"), b"x".to_vec())).collect();
    let many: Vec<(&str, Vec<u8>)> = many.iter().map(|(path, bytes)| (path.as_str(), bytes.clone())).collect();
    let made = [("rows", table(&store, write_made).await), ("files", files(&store, ArtifactKind::Files, &many).await)];
    let reference = filter.reference("kept").unwrap();
    publish(&store, ("made", "train/any"), json!({"trajectories": [reference]}), &made).await;
    let state = PageState {
        store,
        clock: Arc::new(ManualClock::at_millis(1_795_234_530_000)),
        access: PageAccess::Open { secret: "a secret".to_string(), may_change: false },
        address: PageAddress::new("127.0.0.1:7878".parse().unwrap(), None).unwrap(),
        version: "0.0.0",
        daemon: None,
        catalogue: std::sync::LazyLock::new(Box::new(crate::PageCatalogue::default)),
        queries,
    };
    router(Arc::new(state))
}

fn row(id: &str, question: &str, reason: &str) -> Trajectory {
    Trajectory {
        id: id.into(),
        problem_id: format!("p-{id}"),
        messages: vec![Message::new("user", question)],
        verdicts: vec![Verdict { rule: "near_duplicates".into(), keep: reason.is_empty(), reason: reason.into() }],
        ..Trajectory::default()
    }
}

fn write_numbers(path: &Path) {
    let texts = (0..120).map(|n| if n == 0 { HOSTILE.to_string() } else { format!("text {}", n % 3) });
    let table = TableBuilder::new().i64("n", 0..120).f64("x", (0..120).map(|n| Some(f64::from(n) / 2.0)));
    table.string("text", texts).bool("flag", (0..120).map(|n| Some(n < 30))).write(path).unwrap();
}

fn write_made(path: &Path) {
    TableBuilder::new().string("id", ["a"]).string("answer", [HOSTILE]).write(path).unwrap();
}

fn report() -> String {
    let mut report = StageReport::new(format!("Filter {HOSTILE}"));
    report.metric("rows", 4.0).metric("kept", 2.0).metric("rejected", 2.0).note(format!("A note. {HOSTILE}"));
    let mut rules = Table::new(RULES, ["rule", "judged", "rejected"]);
    rules.row([ReportCell::text("near_duplicates"), ReportCell::number(4.0), ReportCell::number(1.0)]);
    rules.row([ReportCell::text("language"), ReportCell::number(3.0), ReportCell::number(1.0)]);
    let mut reasons = Table::new(REASONS, ["rule", "reason", "rows"]);
    reasons.row([ReportCell::text("near_duplicates"), ReportCell::text("near_duplicate"), ReportCell::number(1.0)]);
    reasons.row([ReportCell::text("language"), ReportCell::text("other"), ReportCell::number(1.0)]);
    let mut examples = Table::new(EXAMPLES, ["rule", "reason", "row", "detail"]);
    let example = |cells: [&str; 4]| cells.map(ReportCell::text);
    examples.row(example(["near_duplicates", "near_duplicate", "b", "of a (0.913)"]));
    examples.row(example(["language", "other", "c", HOSTILE]));
    report.table(rules).table(reasons).table(examples);
    report.curve(Curve::new("Loss", "step", "nats").with("train", [(1.0, 2.0), (2.0, 1.5)]));
    serde_json::to_string(&report).unwrap()
}

async fn trajectories(store: &Store, rows: &[Trajectory]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    write_trajectories(&path, rows).unwrap();
    stored(store, ArtifactKind::Trajectories, &path).await
}

async fn table(store: &Store, write: impl Fn(&Path)) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    write(&path);
    stored(store, ArtifactKind::Table, &path).await
}

async fn stored(store: &Store, kind: ArtifactKind, path: &Path) -> Output {
    let mut output = files(store, kind, &[("data.parquet", std::fs::read(path).unwrap())]).await;
    output.table = Some(summarize(path).unwrap());
    output
}

async fn files(store: &Store, kind: ArtifactKind, files: &[(&str, Vec<u8>)]) -> Output {
    let mut entries = Vec::new();
    for (path, bytes) in files {
        let (digest, size) = store.put_object(bytes.clone().into()).await.unwrap();
        entries.push(FileEntry { path: (*path).to_string(), digest, size });
    }
    Output::new(kind, entries, None, Default::default()).unwrap()
}

async fn publish(store: &Store, (stage, kind): (&str, &str), inputs: Value, outputs: &[(&str, Output)]) -> Manifest {
    let outputs: serde_json::Map<String, Value> =
        outputs.iter().map(|(name, output)| ((*name).to_string(), serde_json::to_value(output).unwrap())).collect();
    let manifest = json!({
        "format": 1, "stage_digest": Digest::of(stage.as_bytes()), "generation": 0, "kind": kind, "kind_version": 1,
        "config": {"text": HOSTILE}, "inputs": inputs, "outputs": outputs,
        "metrics": {"kept": 2.0, "<b>format</b>": 0.25},
        "provenance": {"workflow": "w", "run": "r", "stage": stage, "attempt": 1},
    });
    let manifest: Manifest = serde_json::from_value(manifest).unwrap();
    store.publish(&manifest).await.unwrap();
    manifest
}
