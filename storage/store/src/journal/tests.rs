use super::*;
use crate::{CreateOutcome, Store, StoreOptions, layout};
use bytes::Bytes;
use object_store::memory::InMemory;
use serde_json::{Value, json};
use trainyard_core::{Error, ErrorKind, Result, RunId};
use trainyard_testkit::faults::{FaultyStore, StoreFault};

fn run() -> RunId {
    RunId("20260102-030405-00000a".into())
}

fn opened(epoch: u64) -> Value {
    json!({"type": "writer_opened", "epoch": epoch})
}

async fn memory() -> Store {
    Store::open("memory://", StoreOptions::default()).await.unwrap()
}

/// Returns a journal of four batches, as raw bytes.
async fn four_batches() -> Vec<Bytes> {
    let store = memory().await;
    let (mut writer, _) = JournalWriter::open(&store, &run(), "w", opened).await.unwrap();
    for n in 0..3 {
        writer.append(&[json!({"n": n})]).await.unwrap();
    }
    let mut all = Vec::new();
    for seq in 0..4 {
        all.push(store.get(&layout::journal(&run(), seq)).await.unwrap().unwrap());
    }
    all
}

async fn read_of(batches: &[Bytes]) -> Result<Vec<JournalBatch>> {
    let store = memory().await;
    for (seq, bytes) in batches.iter().enumerate() {
        assert_eq!(store.create(&layout::journal(&run(), seq as u64), bytes.clone()).await?, CreateOutcome::Ours);
    }
    JournalReader::read_all(&store, &run()).await
}

#[tokio::test]
async fn intact_journal_reads_back() {
    let batches = read_of(&four_batches().await).await.unwrap();
    assert_eq!(batches.len(), 4);
    assert_eq!(batches[3].events, [json!({"n": 2})]);
}

#[tokio::test]
async fn every_flipped_byte_is_detected() {
    let sound = four_batches().await;
    for at in 0..sound[1].len() {
        let mut damaged = sound.clone();
        let mut bytes = damaged[1].to_vec();
        bytes[at] ^= 1;
        damaged[1] = bytes.into();
        let error = read_of(&damaged).await.expect_err("a flipped bit in batch 1 breaks it or the chain after it");
        assert!(matches!(error.kind, ErrorKind::Data | ErrorKind::Invalid), "{error}");
        assert!(error.message.contains("journal"), "{error}");
    }
}

#[tokio::test]
async fn every_truncation_is_detected() {
    let sound = four_batches().await;
    for length in 0..sound[2].len() {
        let mut damaged = sound.clone();
        damaged[2] = sound[2].slice(..length);
        assert!(read_of(&damaged).await.is_err(), "cut at {length}");
    }
}

#[tokio::test]
async fn missing_batch_is_reported() {
    let sound = four_batches().await;
    for missing in 0..3 {
        let store = memory().await;
        for (seq, bytes) in sound.iter().enumerate().filter(|(seq, _)| *seq != missing) {
            store.create(&layout::journal(&run(), seq as u64), bytes.clone()).await.unwrap();
        }
        let error = JournalReader::read_all(&store, &run()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Data);
        let path = layout::journal(&run(), missing as u64);
        assert!(error.message.contains(&path) && error.message.contains("is missing"), "{error}");
    }
}

#[tokio::test]
async fn leftover_batch_of_a_torn_journal_is_an_error() {
    let store = memory().await;
    let (mut writer, _) = JournalWriter::open(&store, &run(), "dead", opened).await.unwrap();
    let mut last = 0;
    for n in 0..40 {
        last = writer.append(&[json!({"n": n})]).await.unwrap();
    }
    // All but the first and the last are lost: more than any reader reads ahead.
    let torn = memory().await;
    for seq in [0, last] {
        let bytes = store.get(&layout::journal(&run(), seq)).await.unwrap().unwrap();
        torn.create(&layout::journal(&run(), seq), bytes).await.unwrap();
    }
    let (mut writer, _) = JournalWriter::open(&torn, &run(), "alive", opened).await.unwrap();
    let error = loop {
        match writer.append(&[json!({"again": true})]).await {
            Ok(_) => {}
            Err(AppendError::Failed(error)) => break error,
            Err(AppendError::Fenced(fenced)) => panic!("no writer took the run over: {fenced}"),
        }
    };
    assert_eq!(error.kind, ErrorKind::Data);
    assert!(error.message.contains(&layout::journal(&run(), last)) && error.message.contains("missing"), "{error}");
}

#[tokio::test]
async fn opening_a_journal_under_an_active_writer_is_fenced() {
    let store = memory().await;
    let (mut first, _) = JournalWriter::open(&store, &run(), "first", opened).await.unwrap();
    let mut reader = JournalReader::new(&store, &run());
    reader.read_to_end().await.unwrap();
    first.append(&[json!("still here")]).await.unwrap();
    let Err(AppendError::Fenced(fenced)) = reader.open_writer("second", opened).await else { panic!("it is sound") };
    assert_eq!((fenced.owner.as_str(), fenced.epoch, fenced.seq), ("first", 1, 1));
    assert_eq!(first.append(&[json!("and on")]).await, Ok(2), "the first writer is not fenced");
}

#[tokio::test]
async fn batches_of_other_positions_are_rejected() {
    let sound = four_batches().await;
    let swapped = [sound[0].clone(), sound[2].clone(), sound[1].clone()];
    let error: Error = read_of(&swapped).await.unwrap_err();
    assert!(error.message.contains("names run 20260102-030405-00000a batch 2"), "{error}");
    let other = String::from_utf8(sound[1].to_vec()).unwrap().replace("00000a", "00000b");
    let error = read_of(&[sound[0].clone(), other.into()]).await.unwrap_err();
    assert!(error.message.contains("00000b"), "{error}");
}

#[tokio::test]
async fn lost_response_of_a_put_is_success() {
    let faulty = FaultyStore::new(std::sync::Arc::new(InMemory::new()));
    let store = Store::from_object_store(faulty.clone(), "memory://faulty", StoreOptions::default()).await.unwrap();
    let (mut writer, _) = JournalWriter::open(&store, &run(), "w", opened).await.unwrap();
    for fault in [StoreFault::LostAnswer, StoreFault::ExistsAfterRetry, StoreFault::LostRequest] {
        faulty.inject(fault, "journal", 1);
        writer.append(&[json!({"fault": format!("{fault:?}")})]).await.unwrap();
    }
    assert_eq!(JournalReader::read_all(&store, &run()).await.unwrap().len(), 4);
}

#[tokio::test]
async fn a_failed_batch_is_kept_and_put_before_the_next() {
    let faulty = FaultyStore::new(std::sync::Arc::new(InMemory::new()));
    let store = Store::from_object_store(faulty.clone(), "memory://faulty", StoreOptions::default()).await.unwrap();
    let (mut writer, _) = JournalWriter::open(&store, &run(), "w", opened).await.unwrap();
    faulty.inject(StoreFault::DiskFull, "journal", 1);
    let Err(AppendError::Failed(error)) = writer.append(&[json!(1)]).await else { panic!("the disk is full") };
    assert_eq!(error.kind, ErrorKind::Retryable);
    assert!(error.message.contains(&layout::journal(&run(), 1)), "{error}");
    assert_eq!(writer.append(&[json!(2)]).await, Ok(2));
    let events: Vec<_> =
        JournalReader::read_all(&store, &run()).await.unwrap().into_iter().flat_map(|b| b.events).collect();
    assert_eq!(events, [opened(1), json!(1), json!(2)]);
}

#[tokio::test]
async fn one_of_many_concurrent_writers_continues() {
    let store = memory().await;
    let readers = vec![JournalReader::new(&store, &run()); 8];
    let mut writers = Vec::new();
    let mut fenced = 0;
    for (i, reader) in readers.into_iter().enumerate() {
        match reader.open_writer(&format!("w{i}"), opened).await {
            Ok(writer) => writers.push(writer),
            Err(AppendError::Fenced(f)) => {
                assert_eq!(f.owner, "w0");
                fenced += 1;
            }
            Err(AppendError::Failed(e)) => panic!("{e}"),
        }
    }
    assert_eq!((writers.len(), fenced), (1, 7));
    let error = Error::from(WriterFenced { run: run(), owner: "w0".into(), epoch: 2, seq: 4 });
    assert_eq!(error.kind, ErrorKind::Lost);
    assert!(error.to_string().contains("w0"), "{error}");
}

#[tokio::test]
async fn long_journal_is_read_in_parts() {
    let store = memory().await;
    let (mut writer, _) = JournalWriter::open(&store, &run(), "w", opened).await.unwrap();
    for n in 0..40 {
        writer.append(&[json!({"n": n})]).await.unwrap();
    }
    let mut reader = JournalReader::new(&store, &run());
    let mut events = Vec::new();
    loop {
        let (batches, is_end) = reader.read_some().await.unwrap();
        assert!(batches.len() <= 16);
        events.extend(batches.into_iter().flat_map(|batch| batch.events));
        if is_end {
            break;
        }
    }
    assert_eq!((events.len(), &events[40], reader.position()), (41, &json!({"n": 39}), 41));
    assert_eq!(reader.read_some().await.unwrap(), (Vec::new(), true));
    writer.append(&[json!("more")]).await.unwrap();
    assert_eq!(reader.read_some().await.unwrap().0.len(), 1);
}

#[tokio::test]
async fn a_reader_follows_a_writer() {
    let store = memory().await;
    let mut reader = JournalReader::new(&store, &run());
    assert_eq!(reader.next().await.unwrap(), None);
    let (mut writer, _) = JournalWriter::open(&store, &run(), "w", opened).await.unwrap();
    writer.append(&[json!({"text": "line\nfeed \u{2028}"})]).await.unwrap();
    assert_eq!(reader.next().await.unwrap().unwrap().events, [opened(1)]);
    assert_eq!(reader.next().await.unwrap().unwrap().events, [json!({"text": "line\nfeed \u{2028}"})]);
    assert_eq!(reader.next().await.unwrap(), None);
    assert_eq!((reader.position(), reader.epoch()), (2, 1));
}
