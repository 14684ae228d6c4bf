//! Any bytes in place of a manifest, a resume point, a pin, and the files of an attempt: no reader panics; a manifest
//! that parses has no file outside of its folder; garbage collection removes none of its files; a written value is read
//! back unchanged.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use trainyard_core::attempt::{AttemptResult, AttemptSpec, CheckpointRecord};
use trainyard_core::{Digest, Manifest, RunId, StageKey};
use trainyard_store::manifests::NewestManifest;
use trainyard_store::{CollectedManifest, GarbagePolicy, Store, StoreOptions, layout};

/// Asserts that a value that is read, written and read again is unchanged.
fn again<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(data: &[u8]) {
    if let Ok(read) = serde_json::from_slice::<T>(data) {
        let text = serde_json::to_vec(&read).expect("it has a JSON form");
        assert_eq!(serde_json::from_slice::<T>(&text).expect("its own form is read"), read);
    }
}

async fn open() -> Store {
    let options = StoreOptions { probe: false, ..StoreOptions::default() };
    Store::open("memory://", options).await.expect("memory opens")
}

async fn in_a_store(data: &[u8]) {
    let (store, stage, run) = (open().await, Digest::of(b"s"), RunId("20260102-030405-00000a".into()));
    let (object, _) = store.put_object(Bytes::from_static(b"x")).await.expect("memory takes it");
    let bytes = Bytes::copy_from_slice(data);
    store.create(&layout::manifest(&stage, 0), bytes.clone()).await.expect("memory takes it");
    let newest = store.newest(&stage).await;
    let policy =
        GarbagePolicy { older_than: Duration::ZERO, keep_last: Some(1), runs_older_than: Some(Duration::ZERO) };
    if let Ok(NewestManifest::Sound(manifest)) = &newest {
        let mut files = manifest.outputs.values().flat_map(|output| &output.files);
        assert!(files.all(|file| file.stays_inside()));
        let named = manifest.outputs.values().flat_map(|output| &output.files).any(|file| file.digest == object);
        let plan = store.garbage_plan(&policy).await.expect("what is sound can be judged");
        store.collect_garbage(&plan).await.expect("memory lets it go");
        assert_eq!(store.has_object(&object, 1).await, Ok(named));
    }
    let folder = format!("{}/s/1", layout::attempts(&run));
    for path in [
        layout::checkpoint(&stage, 1, 1),
        format!("{}/000000", layout::pin(&stage, 0)),
        format!("{folder}/spec.json"),
        format!("{folder}/result.json"),
        layout::tick("nightly", "1"),
        layout::removal(&run),
    ] {
        store.create(&path, bytes.clone()).await.expect("memory takes it");
    }
    let _ = (store.spec_in(&folder).await, store.result(&run, &StageKey("s".into()), 1).await, store.pins().await);
    if let Ok(plan) = store.garbage_plan(&policy).await {
        let _ = store.collect_garbage(&plan).await;
    }
}

fuzz_target!(|data: &[u8]| {
    again::<Manifest>(data);
    again::<CollectedManifest>(data);
    again::<CheckpointRecord>(data);
    again::<AttemptSpec>(data);
    again::<AttemptResult>(data);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    runtime.block_on(in_a_store(data));
});
