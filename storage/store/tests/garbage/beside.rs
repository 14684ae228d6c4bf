//! Tests collections concurrent with processes that look up, store and publish, under a seeded order of all their
//! requests.
//!
//! The tests keep the assumptions of `docs/design/0014-garbage.md`: time does not jump by hours while a process is
//! between a lookup and the journal record of it, or between an output and its publication.

use crate::world::{HOUR, Key, digested, finished, hit, manifest, opened, result, stage, store};
use bytes::Bytes;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::RwLock;
use trainyard_core::clock::ManualClock;
use trainyard_core::{Chance, Clock as _, Digest, Manifest, RunId};
use trainyard_store::manifests::NewestManifest;
use trainyard_store::{GarbagePolicy, JournalWriter, PublishOutcome, Store};

const SEEDS: u64 = 60;
const STAGES: u64 = 4;

/// Held for reading where a process must proceed within minutes, for writing where hours pass.
type Hours = RwLock<()>;

struct Process<'a> {
    store: &'a Store,
    clock: &'a ManualClock,
    hours: &'a Hours,
    chance: Chance,
    name: u64,
}

impl Process<'_> {
    /// Does several runs one after the other.
    async fn work(&self) {
        for number in 0..4 {
            self.run(number).await;
        }
    }
    async fn run(&self, number: u64) {
        let mut draws = self.chance.at("run", &[self.name, number]);
        let run = RunId::new(self.clock, &Chance::new(100 * self.name + number));
        let mut writer = self.begin(&run).await;
        let mut reached: BTreeSet<Key> = BTreeSet::new();
        for attempt in 0..3 {
            let digest = stage(draws.below(STAGES));
            let again = draws.below(3) == 0;
            let key = self.stage(&run, &mut writer, attempt, &digest, again).await;
            reached.insert(key);
            self.pass(draws.below(20)).await;
            for key in &reached {
                self.read(key).await;
            }
        }
        writer.append(&[finished()]).await.unwrap();
    }
    async fn begin(&self, run: &RunId) -> JournalWriter {
        JournalWriter::open(self.store, run, "w", opened).await.unwrap().0
    }
    /// Takes a stage from the cache or computes it; returns the manifest found or published.
    async fn stage(&self, run: &RunId, writer: &mut JournalWriter, attempt: u32, digest: &Digest, again: bool) -> Key {
        let next = {
            let _soon = self.hours.read().await;
            let (next, found) = self.look_up(digest).await;
            if let Some(found) = found.filter(|_| !again) {
                let key = (found.stage_digest, found.generation);
                writer.append(&[hit(&key)]).await.unwrap();
                return key;
            }
            writer.append(&[digested(digest)]).await.unwrap();
            next
        };
        // The work of the attempt takes time.
        self.pass(10).await;
        let files = {
            let _soon = self.hours.read().await;
            let byte = [digest.as_str().as_bytes()[0], attempt as u8 % 2];
            let (file, _) = self.store.put_object(Bytes::copy_from_slice(&byte[..1])).await.unwrap();
            self.store.put_result(&result(run, digest, attempt, std::slice::from_ref(&file))).await.unwrap();
            [file]
        };
        self.pass(10).await;
        self.publish(run, writer, digest, next, &files).await
    }
    async fn look_up(&self, digest: &Digest) -> (u32, Option<Manifest>) {
        match self.store.newest(digest).await.unwrap() {
            NewestManifest::Missing => (0, None),
            NewestManifest::Damaged { generation, .. } => (generation + 1, None),
            NewestManifest::Sound(manifest) => {
                let there = self.store.has_objects(&manifest.outputs["o"].files).await.unwrap();
                (manifest.generation + 1, there.then_some(*manifest))
            }
        }
    }
    async fn publish(
        &self,
        run: &RunId,
        writer: &mut JournalWriter,
        digest: &Digest,
        next: u32,
        files: &[Digest],
    ) -> Key {
        let key = (digest.clone(), next);
        let group = ("w".to_string(), digest.short().to_string());
        let ours = manifest(&key, &group, run, &[], files);
        // No object that the result names may be missing, regardless of the collections meanwhile.
        let published = self.store.publish(&ours).await.unwrap();
        assert!(matches!(published, PublishOutcome::Ours | PublishOutcome::Theirs(_)));
        let event = json!({"type": "published", "stage": "s", "attempt": 1, "digest": key.0, "generation": key.1});
        writer.append(&[event]).await.unwrap();
        key
    }
    /// Reads the files of a manifest that this run has reached: they exist as long as the run is in progress.
    async fn read(&self, key: &Key) {
        let bytes = self.store.get(&trainyard_store::layout::manifest(&key.0, key.1)).await.unwrap().unwrap();
        let found: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
        let made = found.get("manifest").unwrap_or(&found);
        let made: Manifest = serde_json::from_value(made.clone()).unwrap();
        for file in &made.outputs["o"].files {
            self.store.read_object(&file.digest).await.unwrap();
        }
    }
    async fn pass(&self, turns: u64) {
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    }
}

/// Collects repeatedly; hours pass in between.
async fn collector(store: &Store, clock: &ManualClock, hours: &Hours) {
    let policy = GarbagePolicy { older_than: 24 * HOUR, keep_last: Some(1), runs_older_than: None };
    for _ in 0..12 {
        let plan = store.garbage_plan(&policy).await.unwrap();
        store.collect_garbage(&plan).await.unwrap();
        let _no_shared_lock = hours.write().await;
        clock.advance(25 * HOUR);
    }
}

async fn beside(seed: u64) {
    let clock = Arc::new(ManualClock::at_millis(1_795_000_000_000));
    let chance = Chance::new(seed);
    let store = store(&clock, Some(chance)).await;
    let hours = Hours::default();
    let process = |name| Process { store: &store, clock: clock.as_ref(), hours: &hours, chance, name };
    let (first, second) = (process(1), process(2));
    tokio::join!(first.work(), second.work(), collector(&store, &clock, &hours), collector(&store, &clock, &hours));
    assert!(clock.unix_millis() > 1_795_000_000_000);
    // The present manifest of every stage is readable.
    for number in 0..STAGES {
        if let NewestManifest::Sound(manifest) = store.newest(&stage(number)).await.unwrap() {
            assert!(store.has_objects(&manifest.outputs["o"].files).await.unwrap(), "seed {seed}");
        }
    }
}

#[tokio::test]
async fn references_of_a_run_stay_readable_until_its_end() {
    for seed in 0..SEEDS {
        beside(seed).await;
    }
}
