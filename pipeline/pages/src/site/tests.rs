//! Sites of a run in a memory store: every link of every file leads to a file, and hostile text stays text.

use super::{SiteSummary, write_site};
use crate::PageProgram;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use trainyard_core::artifact::TableSummary;
use trainyard_core::clock::ManualClock;
use trainyard_core::event::{
    AttemptOutcome, Event, EventRecord, GrantSummary, OutputSummary, PlannedStage, RunOutcome, Selection,
};
use trainyard_core::{ArtifactKind, Digest, FileEntry, Manifest, Output, RunId, StageKey};
use trainyard_store::{JournalWriter, Store, StoreOptions};
use trainyard_tables::{Message, Trajectory, write_trajectories};

const RUN: &str = "20261121-041530-02a0001";
/// 2026-11-21T04:15:30Z.
const CREATED: i64 = 1_795_234_530_000;
const HOSTILE: &str = "<script>alert(1)</script>\u{202e}\u{1b}[31m";
/// Stage with a name that is no name of a file.
const STAGE: &str = "rl[lr=1,seed=2]";

fn rollouts(count: u32) -> Vec<Trajectory> {
    let rollout = |n: u32| Trajectory {
        id: format!("r{n}"),
        problem_id: format!("p{}/{HOSTILE}", n / 4),
        update: Some(n / 10),
        messages: vec![Message::new("user", HOSTILE), Message::new("assistant", "[5](javascript:alert(1))")],
        reward: f64::from(n % 2),
        turns: 1,
        ..Trajectory::default()
    };
    (0..count).map(rollout).collect()
}

async fn publish(store: &Store, rows: &[Trajectory]) -> Digest {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.parquet");
    write_trajectories(&path, rows).unwrap();
    let (digest, size) = store.put_object(std::fs::read(&path).unwrap().into()).await.unwrap();
    let file = json!({"path": "data.parquet", "digest": digest, "size": size});
    let file: FileEntry = serde_json::from_value(file).unwrap();
    let table = TableSummary { rows: rows.len() as u64, columns: Vec::new(), preview: Vec::new() };
    let output = Output::new(ArtifactKind::Trajectories, vec![file], Some(table), Default::default()).unwrap();
    let stage_digest = Digest::of(STAGE.as_bytes());
    let manifest = json!({
        "format": 1, "stage_digest": stage_digest, "generation": 0, "kind": "rl", "kind_version": 1, "config": {},
        "inputs": {}, "outputs": {"trajectories": output}, "metrics": {},
        "provenance": {"workflow": "w", "run": RUN, "stage": STAGE, "attempt": 1},
    });
    let manifest: Manifest = serde_json::from_value(manifest).unwrap();
    store.publish(&manifest).await.unwrap();
    stage_digest
}

/// Writes the journal of a run of one stage, whose digest is `digest`.
async fn record_run(store: &Store, digest: Digest, rows: u64) {
    let opened = |epoch| {
        let event = Event::WriterOpened { epoch, writer: "elsewhere:1:1:1".into() };
        serde_json::to_value(EventRecord { at: CREATED, event }).unwrap()
    };
    let (mut writer, _) = JournalWriter::open(store, &RunId(RUN.into()), "w", opened).await.unwrap();
    let stage = StageKey(STAGE.into());
    let planned = PlannedStage { stage: stage.clone(), kind: "rl".into(), main_metric: None, after: Vec::new() };
    let output =
        OutputSummary { kind: ArtifactKind::Trajectories, digest: Digest::of(b"rows"), size: 9, rows: Some(rows) };
    let grant = GrantSummary::default();
    let events = [
        Event::RunCreated {
            format: 1,
            workflow: format!("w {HOSTILE}"),
            source: "w.yaml".into(),
            plan_digest: Digest::of(b"plan"),
            params: BTreeMap::new(),
            selection: Selection::default(),
            stages: vec![planned],
        },
        Event::AttemptStarted { stage: stage.clone(), attempt: 1, digest: digest.clone(), pool: "local".into(), grant },
        Event::AttemptEnded { stage: stage.clone(), attempt: 1, outcome: AttemptOutcome::Succeeded, error: None },
        Event::Published {
            stage,
            attempt: 1,
            digest,
            generation: 0,
            reason: None,
            adopted: false,
            metrics: BTreeMap::new(),
            comparisons: Vec::new(),
            outputs: BTreeMap::from([("trajectories".to_string(), output)]),
        },
        Event::RunFinished { outcome: RunOutcome::Succeeded },
    ];
    for event in events {
        writer.append(&[EventRecord { at: CREATED, event }]).await.unwrap();
    }
}

fn program() -> PageProgram {
    let catalogue = crate::LazyCatalogue::new(Box::new(crate::PageCatalogue::default));
    PageProgram { version: "0.0.0", catalogue, queries: crate::PageQueries::default() }
}

async fn written(rows: u32, limit: usize, folder: &Path) -> SiteSummary {
    let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
    let digest = publish(&store, &rollouts(rows)).await;
    record_run(&store, digest, u64::from(rows)).await;
    let clock = Arc::new(ManualClock::at_millis(CREATED + 60_000));
    write_site(store, clock, &RunId(RUN.into()), limit, folder, program()).await.unwrap()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() { folders.push(path) } else { found.push(path) }
        }
    }
    found.sort();
    found
}

/// Returns the values of the attributes `href` and `src`.
fn addresses(html: &str) -> Vec<String> {
    let values = [" href=\"", " src=\""].into_iter().flat_map(|name| html.split(name).skip(1));
    values.map(|rest| rest.split('"').next().unwrap().replace("&amp;", "&")).collect()
}

#[tokio::test]
async fn every_link_of_every_file_leads_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let site = folder.path().join("site");
    written(40, 500, &site).await;
    let mut links = 0;
    for file in files(&site).iter().filter(|file| file.extension().is_some_and(|end| end == "html")) {
        let html = std::fs::read_to_string(file).unwrap();
        assert!(!html.contains("<form") && !html.contains("data-events"), "{}", file.display());
        assert!(html.contains("http-equiv=\"Content-Security-Policy\""), "{}", file.display());
        for address in addresses(&html) {
            let path = address.split(['?', '#']).next().unwrap();
            assert!(!path.contains('%') && !path.starts_with('/'), "{address} in {}", file.display());
            if !path.is_empty() {
                let target = file.parent().unwrap().join(path);
                assert!(target.is_file(), "{address} in {}", file.display());
            }
            links += 1;
        }
    }
    assert!(links > 200, "{links}");
}

#[tokio::test]
async fn rollouts_are_spread_evenly_and_the_site_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let summary = written(100, 4, folder.path()).await;
    assert_eq!((summary.rollouts, summary.rollouts_total), (4, 100));
    let names = files(folder.path());
    let names: Vec<String> = names.iter().map(|file| file.display().to_string()).collect();
    let rows: Vec<&String> = names.iter().filter(|name| name.contains("/rows/")).collect();
    assert_eq!(rows.len(), 4, "{rows:?}");
    for row in ["12", "37", "62", "87"] {
        assert!(rows.iter().any(|name| name.ends_with(&format!("/rows/{row}/index.html"))), "{row} in {rows:?}");
    }
    let list = names.iter().find(|name| name.ends_with("/rollouts/index.html")).unwrap();
    let list = std::fs::read_to_string(list).unwrap();
    assert!(list.contains("This site has 4 of 100 rollouts, evenly spread over the rows."), "{list}");
    let first = std::fs::read_to_string(folder.path().join("index.html")).unwrap();
    assert!(first.contains("4 of 100") && first.contains("written 2026-11-21 04:16 UTC"), "{first}");
    assert_eq!(names.len(), summary.pages + crate::assets::ALL.len());
}

#[tokio::test]
async fn hostile_text_stays_text_in_files() {
    let folder = tempfile::tempdir().unwrap();
    written(8, 500, folder.path()).await;
    for file in files(folder.path()) {
        let html = std::fs::read_to_string(&file).unwrap();
        for wrong in ["<script>alert", "\u{202e}", "\u{1b}", "href=\"javascript:"] {
            assert!(!html.contains(wrong), "{} has {wrong:?}", file.display());
        }
    }
}

#[tokio::test]
async fn a_folder_with_files_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("notes.txt"), "mine").unwrap();
    let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
    let clock = Arc::new(ManualClock::at_millis(CREATED));
    let error = write_site(store, clock, &RunId(RUN.into()), 500, folder.path(), program()).await.unwrap_err();
    assert!(error.message.contains("is not empty"), "{error}");
    assert_eq!(files(folder.path()).len(), 1);
}
