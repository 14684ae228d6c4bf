//! Any bytes as batches of a journal, and any lines of JSON as events: no panic; a reader reads a journal in pieces as
//! it reads it whole; events that a writer appends to a readable journal are read back. A line of `%` separates
//! batches.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use trainyard_core::{Result, RunId, StageKey};
use trainyard_engine::fold::RunView;
use trainyard_store::{JournalReader, JournalWriter, Store, StoreOptions, layout};

/// Most batches of one input.
const BATCHES: usize = 6;

fn run() -> RunId {
    RunId("20260102-030405-00000a".into())
}

/// Runs all queries on a run.
fn look(view: &RunView) {
    for stage in &view.stages {
        assert!(!view.explain(&stage.stage.0).is_empty());
        let _ = stage.seconds();
    }
    let _ = (view.totals(), view.counts(), view.explain(&StageKey("none".into())));
    serde_json::to_string(view).expect("a view has a JSON form");
}

fn batches(data: &[u8]) -> Vec<Bytes> {
    let (mut batches, mut rest) = (Vec::new(), data);
    while let Some(at) = rest.windows(2).position(|pair| pair == b"%\n").filter(|_| batches.len() + 1 < BATCHES) {
        batches.push(Bytes::copy_from_slice(&rest[..at]));
        rest = &rest[at + 2..];
    }
    batches.push(Bytes::copy_from_slice(rest));
    batches
}

async fn read_in_steps(store: &Store) -> Result<Vec<Value>> {
    let (mut reader, mut events) = (JournalReader::new(store, &run()), Vec::new());
    while let Some(batch) = reader.next().await? {
        events.extend(batch.events);
    }
    Ok(events)
}

async fn journal(data: &[u8]) {
    let options = StoreOptions { probe: false, ..StoreOptions::default() };
    let store = Store::open("memory://", options).await.expect("memory opens");
    for (seq, batch) in batches(data).into_iter().enumerate() {
        store.create(&layout::journal(&run(), seq as u64), batch).await.expect("memory takes it");
    }
    let whole = JournalReader::read_all(&store, &run()).await;
    let events: Result<Vec<Value>> = whole.map(|all| all.into_iter().flat_map(|batch| batch.events).collect());
    let steps = read_in_steps(&store).await;
    assert_eq!(events.is_ok(), steps.is_ok());
    let Ok(events) = events else { return };
    assert_eq!(Ok(&events), steps.as_ref());
    if let Ok(view) = RunView::from_values(&events) {
        look(&view);
    }
    let opened = |epoch: u64| json!({"type": "writer_opened", "epoch": epoch, "writer": "fuzz"});
    // The largest epoch has no successor.
    let Ok((mut writer, before)) = JournalWriter::open(&store, &run(), "fuzz", opened).await else { return };
    assert_eq!(before, events);
    writer.append(&[json!({"type": "heartbeat"})]).await.expect("memory takes it");
    let after = JournalReader::read_all(&store, &run()).await.expect("it was readable before");
    assert_eq!(after.iter().map(|batch| batch.events.len()).sum::<usize>(), events.len() + 2);
}

fuzz_target!(|data: &[u8]| {
    let events: Vec<Value> = data.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    if let Ok(view) = RunView::from_values(&events) {
        look(&view);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(journal(data));
});
