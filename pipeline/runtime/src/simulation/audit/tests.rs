//! Tests the online auditors with histories of one violation each.

use super::Ledger;
use crate::simulation::process::{Population, Process, Time};
use crate::tests::attempt_spec;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use trainyard_core::event::{Event, EventRecord, GrantSummary, RunOutcome};
use trainyard_core::{Digest, RunId, StageKey};
use trainyard_store::{JournalWriter, Store, StoreOptions, layout};

fn run() -> RunId {
    RunId("20261121-000000-000000".into())
}

fn value(event: Event) -> Value {
    EventRecord { at: 0, event }.to_value().unwrap()
}

fn started(attempt: u32) -> Event {
    Event::AttemptStarted {
        stage: StageKey("a".into()),
        attempt,
        digest: Digest::of(b"a"),
        pool: "far".into(),
        grant: GrantSummary::default(),
    }
}

fn cancelled() -> Event {
    Event::CancelRequested { why: "test".into() }
}

fn finished() -> Event {
    Event::RunFinished { outcome: RunOutcome::Succeeded }
}

fn hit() -> Event {
    Event::CacheHit {
        stage: StageKey("a".into()),
        digest: Digest::of(b"a"),
        generation: 0,
        metrics: BTreeMap::new(),
        comparisons: Vec::new(),
        outputs: BTreeMap::new(),
    }
}

fn process() -> Arc<Process> {
    Population::new(Time::begin()).born(0)
}

/// Builds the batches of a journal, one event each, by consecutive writers.
async fn batches(writers: &[(&str, Vec<Event>)]) -> Vec<(String, Vec<u8>)> {
    let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
    for (name, events) in writers {
        let opened = |epoch| value(Event::WriterOpened { epoch, writer: (*name).to_string() });
        let (mut writer, _) = JournalWriter::open(&store, &run(), name, opened).await.unwrap();
        for event in events {
            writer.append(&[value(event.clone())]).await.unwrap();
        }
    }
    let mut found = Vec::new();
    for name in store.list(&layout::run(&run())).await.unwrap() {
        let bytes = store.get(&name).await.unwrap().unwrap();
        found.push((name, bytes.to_vec()));
    }
    found
}

/// Returns the violations that the auditors report for such batches.
fn complaints(batches: &[(String, Vec<u8>)]) -> String {
    let (mut ledger, process) = (Ledger::default(), process());
    let found: Vec<String> = batches.iter().flat_map(|(name, bytes)| ledger.put(&process, name, bytes)).collect();
    found.join("\n")
}

async fn complaints_of(events: Vec<Event>) -> String {
    complaints(&batches(&[("w", events)]).await)
}

#[tokio::test]
async fn valid_journal_has_no_complaints() {
    let first = vec![started(1), cancelled(), finished()];
    let found = complaints(&batches(&[("v", first), ("w", vec![started(2), finished()])]).await);
    assert_eq!(found, "", "a run may go on after it was cancelled");
}

#[tokio::test]
async fn out_of_order_events_are_reported() {
    assert!(complaints_of(vec![cancelled(), started(1)]).await.contains("after the run was cancelled"));
    assert!(complaints_of(vec![started(2), started(2)]).await.contains("was started again"));
    assert!(complaints_of(vec![finished(), started(1)]).await.contains("after the end of the run"));
    assert!(complaints_of(vec![hit()]).await.contains("is not published"));
}

#[tokio::test]
async fn broken_chain_and_duplicate_epoch_are_reported() {
    let sound = batches(&[("w", vec![started(1), started(2), finished()])]).await;
    let mut gap = sound.clone();
    gap.remove(1);
    assert!(complaints(&gap).contains("comes where 1 should"));
    let mut changed = sound.clone();
    changed[2].1 = String::from_utf8(sound[2].1.clone()).unwrap().replace("far", "fir").into_bytes();
    assert!(complaints(&changed).contains("does not continue the chain"));
    let mut second = sound.clone();
    second[2].1 = String::from_utf8(sound[2].1.clone()).unwrap().replace(r#""writer":"w""#, r#""writer":"x""#).into();
    assert!(complaints(&second).contains("x writes in epoch 1, while w has epoch 1"));
    let mut over = sound.clone();
    over.push((sound[1].0.clone(), sound[2].1.clone()));
    assert!(complaints(&over).contains("wrote over runs/"));
}

#[tokio::test]
async fn unjournaled_attempts_are_reported() {
    let spec = attempt_spec();
    let (mut ledger, process) = (Ledger::default(), process());
    assert!(ledger.submits(&process, &spec)[0].contains("before its journal records it"));
    for (name, bytes) in batches(&[("w", vec![started(1)])]).await {
        assert_eq!(ledger.put(&process, &name, &bytes), Vec::<String>::new());
    }
    assert_eq!(ledger.submits(&process, &spec), Vec::<String>::new());
    assert_eq!(ledger.starts(&process, &layout::attempt(&run(), &spec.stage, 1)), Vec::<String>::new());
    assert!(ledger.starts(&process, &layout::attempt(&run(), &spec.stage, 2))[0].contains("no engine submitted"));
}

#[tokio::test]
async fn changed_bytes_and_removals_are_reported() {
    let (mut ledger, process) = (Ledger::default(), process());
    let name = layout::object(&Digest::of(b"ours"));
    assert_eq!(ledger.put(&process, &name, b"ours"), Vec::<String>::new());
    assert!(ledger.put(&process, &name, b"theirs")[0].contains("holds other bytes"));
    assert!(ledger.delete(&name)[0].contains("was removed"));
    let manifest = layout::manifest(&Digest::of(b"a"), 0);
    assert!(ledger.put(&process, &manifest, b"{}")[0].contains("is no manifest"));
}
