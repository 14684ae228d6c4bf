//! Generates random stores and models their history.

use crate::dated::Dated;
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use trainyard_core::artifact::{GenerationReason, Provenance};
use trainyard_core::attempt::{AttemptResult, CheckpointRecord};
use trainyard_core::chance::PhiloxRng;
use trainyard_core::clock::ManualClock;
use trainyard_core::{ArtifactKind, Chance, Clock, Digest, FileEntry, Manifest, Output, RunId, StageKey};
use trainyard_store::{JournalReader, JournalWriter, PublishOutcome, Store, StoreOptions};

/// Stage digest and generation.
pub type Key = (Digest, u32);

pub const MINUTE: Duration = Duration::from_secs(60);
pub const HOUR: Duration = Duration::from_secs(3_600);

const STAGES: u64 = 6;
const PAYLOADS: u64 = 10;

/// A published manifest.
#[derive(Debug, Clone)]
pub struct Made {
    pub inputs: Vec<Key>,
    pub payloads: BTreeSet<Digest>,
    pub group: (String, String),
    pub run: RunId,
}

pub struct ModelRun {
    pub writer: Option<JournalWriter>,
    /// Events in its journal.
    pub events: usize,
    pub finished: bool,
    /// Manifests that it published or found since it was opened last.
    pub uses: BTreeSet<Key>,
    /// All manifests that it ever published or found.
    pub named: BTreeSet<Key>,
    /// Objects of its results since it was opened last.
    pub results: BTreeSet<Digest>,
}

pub struct World {
    pub store: Store,
    pub clock: Arc<ManualClock>,
    pub draws: PhiloxRng,
    pub made: BTreeMap<Key, Made>,
    pub runs: BTreeMap<RunId, ModelRun>,
    pub pins: BTreeSet<Key>,
    /// Runs that the newest tick of their schedule names.
    pub ticks: BTreeMap<String, RunId>,
    /// Time of each object's last write, in Unix milliseconds.
    pub written: BTreeMap<Digest, i64>,
    /// Objects of checkpoints, by stage and step.
    pub points: BTreeMap<Digest, Vec<(u64, BTreeSet<Digest>)>>,
    steps: u64,
}

pub fn stage(number: u64) -> Digest {
    Digest::of(format!("stage {number}").as_bytes())
}

/// Returns a store in memory with a separate clock.
pub async fn store(clock: &Arc<ManualClock>, pauses: Option<Chance>) -> Store {
    let injected: Arc<dyn Clock> = clock.clone();
    let options = StoreOptions { clock: injected, chance: Chance::new(1), ..StoreOptions::default() };
    Store::from_object_store(Arc::new(Dated::new(clock.clone(), pauses)), "memory://dated", options).await.unwrap()
}

/// Returns a manifest with one output of these objects, each of one byte.
pub fn manifest(key: &Key, group: &(String, String), run: &RunId, inputs: &[Manifest], files: &[Digest]) -> Manifest {
    let files = files.iter().enumerate();
    let files = files.map(|(i, digest)| FileEntry { path: format!("f{i}"), digest: digest.clone(), size: 1 }).collect();
    let output = Output::new(ArtifactKind::Files, files, None, BTreeMap::new()).unwrap();
    let inputs: Vec<_> = inputs.iter().filter_map(|input| input.reference("o")).collect();
    Manifest {
        format: 1,
        stage_digest: key.0.clone(),
        generation: key.1,
        reason: (key.1 > 0).then_some(GenerationReason::Rerun),
        kind: "test".into(),
        kind_version: 1,
        config: json!({}),
        inputs: if inputs.is_empty() { BTreeMap::new() } else { BTreeMap::from([("i".to_string(), inputs)]) },
        outputs: BTreeMap::from([("o".to_string(), output)]),
        metrics: BTreeMap::new(),
        comparisons: Vec::new(),
        provenance: Provenance {
            workflow: group.0.clone(),
            run: run.clone(),
            stage: StageKey(group.1.clone()),
            attempt: 1,
        },
        measured: BTreeMap::new(),
    }
}

pub fn opened(epoch: u64) -> Value {
    json!({"type": "writer_opened", "epoch": epoch, "writer": "w"})
}

pub fn hit(key: &Key) -> Value {
    json!({"type": "cache_hit", "stage": "s", "digest": key.0, "generation": key.1})
}

pub fn digested(stage: &Digest) -> Value {
    json!({"type": "stage_digested", "stage": "s", "digest": stage, "why": "new"})
}

pub fn finished() -> Value {
    json!({"type": "run_finished", "outcome": "succeeded"})
}

pub fn result(run: &RunId, stage: &Digest, attempt: u32, files: &[Digest]) -> AttemptResult {
    let manifest = manifest(&(stage.clone(), 0), &("w".into(), "s".into()), run, &[], files);
    AttemptResult {
        format: 1,
        run: run.clone(),
        stage: StageKey(stage.short().to_string()),
        attempt,
        stage_digest: stage.clone(),
        outputs: manifest.outputs,
        metrics: BTreeMap::new(),
        comparisons: Vec::new(),
        measured: BTreeMap::new(),
    }
}

impl World {
    /// Without `pauses`, a request completes at once.
    pub async fn new(seed: u64, pauses: bool) -> Self {
        let clock = Arc::new(ManualClock::at_millis(1_795_000_000_000));
        let chance = Chance::new(seed);
        Self {
            store: store(&clock, pauses.then_some(chance)).await,
            clock,
            draws: chance.at("world", &[]),
            made: BTreeMap::new(),
            runs: BTreeMap::new(),
            pins: BTreeSet::new(),
            ticks: BTreeMap::new(),
            written: BTreeMap::new(),
            points: BTreeMap::new(),
            steps: 0,
        }
    }
    pub fn now(&self) -> i64 {
        self.clock.unix_millis()
    }
    /// Does a random action of a process.
    pub async fn act(&mut self) {
        self.steps += 1;
        match self.draws.below(14) {
            0 | 1 => drop(self.begin().await),
            2..5 => self.publish().await,
            5 | 6 => self.find().await,
            7 => self.leave_result().await,
            8 => drop(self.put_some().await),
            9 => self.save_point().await,
            10 => self.finish().await,
            11 => self.resume().await,
            12 => self.pin().await,
            _ => self.tick().await,
        }
        let waits = [MINUTE, 20 * MINUTE, 3 * HOUR, 30 * HOUR];
        self.clock.advance(*self.draws.choose(&waits));
    }
    async fn begin(&mut self) -> RunId {
        let run = RunId::new(self.clock.as_ref(), &Chance::new(self.steps));
        let (writer, before) = JournalWriter::open(&self.store, &run, "w", opened).await.unwrap();
        assert!(before.is_empty());
        let run_of = ModelRun {
            writer: Some(writer),
            events: 1,
            finished: false,
            uses: BTreeSet::new(),
            named: BTreeSet::new(),
            results: BTreeSet::new(),
        };
        self.runs.insert(run.clone(), run_of);
        run
    }
    fn unfinished(&mut self) -> Option<RunId> {
        let open: Vec<_> = self.runs.iter().filter(|(_, run)| !run.finished).map(|(id, _)| id.clone()).collect();
        (!open.is_empty()).then(|| self.draws.choose(&open).clone())
    }
    pub async fn append(&mut self, run: &RunId, events: &[Value]) {
        let run = self.runs.get_mut(run).unwrap();
        run.events += events.len();
        run.writer.as_mut().unwrap().append(events).await.unwrap();
    }
    /// Stores one to three objects of one byte.
    async fn put_some(&mut self) -> Vec<Digest> {
        let mut digests = BTreeSet::new();
        for _ in 0..1 + self.draws.below(3) {
            let byte = self.draws.below(PAYLOADS) as u8;
            let (digest, _) = self.store.put_object(Bytes::copy_from_slice(&[byte])).await.unwrap();
            let (now, fresh) = (self.now(), trainyard_store::garbage::RENEWED.as_millis() as i64);
            let written = self.written.entry(digest.clone()).or_insert(now);
            // Recently written objects are not written again.
            if now - *written >= fresh {
                *written = now;
            }
            digests.insert(digest);
        }
        digests.into_iter().collect()
    }
    /// Returns the newest manifest of a stage, if its files exist.
    pub async fn look_up(&self, stage: &Digest) -> (u32, Option<Manifest>) {
        use trainyard_store::manifests::NewestManifest;
        match self.store.newest(stage).await.unwrap() {
            NewestManifest::Missing => (0, None),
            NewestManifest::Damaged { generation, .. } => (generation + 1, None),
            NewestManifest::Sound(manifest) => {
                let files = &manifest.outputs["o"].files;
                let there = self.store.has_objects(files).await.unwrap();
                (manifest.generation + 1, there.then_some(*manifest))
            }
        }
    }
    async fn find(&mut self) {
        let number = self.draws.below(STAGES);
        let (_, found) = self.look_up(&stage(number)).await;
        let (Some(run), Some(found)) = (self.unfinished(), found) else { return };
        let key = (found.stage_digest, found.generation);
        self.append(&run, &[hit(&key)]).await;
        self.uses(&run, key);
    }
    fn uses(&mut self, run: &RunId, key: Key) {
        let run = self.runs.get_mut(run).unwrap();
        run.uses.insert(key.clone());
        run.named.insert(key);
    }
    async fn publish(&mut self) {
        let Some(run) = self.unfinished() else { return };
        let number = self.draws.below(STAGES);
        let (next, _) = self.look_up(&stage(number)).await;
        let key = (stage(number), next);
        // As in a run: inputs were found before they are read.
        let mut inputs = Vec::new();
        for number in 0..self.draws.below(3).min(number) {
            if let (_, Some(input)) = self.look_up(&stage(number)).await {
                let found = (input.stage_digest.clone(), input.generation);
                self.append(&run, &[hit(&found)]).await;
                self.uses(&run, found);
                inputs.push(input);
            }
        }
        self.append(&run, &[digested(&key.0)]).await;
        let files = self.put_some().await;
        let group = (format!("workflow {}", number % 2), format!("s{}[seed={}]", number % 3, self.draws.below(2)));
        let manifest = manifest(&key, &group, &run, &inputs, &files);
        assert_eq!(self.store.publish(&manifest).await.unwrap(), PublishOutcome::Ours);
        let event = json!({"type": "published", "stage": "s", "attempt": 1, "digest": key.0, "generation": key.1});
        self.append(&run, &[event]).await;
        self.uses(&run, key.clone());
        let inputs = inputs.into_iter().map(|input| (input.stage_digest, input.generation)).collect();
        self.made.insert(key, Made { inputs, payloads: files.into_iter().collect(), group, run });
    }
    async fn leave_result(&mut self) {
        let Some(run) = self.unfinished() else { return };
        let number = self.draws.below(STAGES);
        let files = self.put_some().await;
        self.store.put_result(&result(&run, &stage(number), self.steps as u32, &files)).await.unwrap();
        self.runs.get_mut(&run).unwrap().results.extend(files);
    }
    async fn save_point(&mut self) {
        let Some(run) = self.unfinished() else { return };
        // Some stages are never published.
        let number = self.draws.below(2 * STAGES);
        let digest = stage(number);
        self.append(&run, &[digested(&digest)]).await;
        let files = self.put_some().await;
        let entries = files.iter().enumerate();
        let entries = entries.map(|(i, file)| FileEntry { path: format!("f{i}"), digest: file.clone(), size: 1 });
        let record = CheckpointRecord {
            format: 1,
            stage_digest: digest.clone(),
            step: self.steps,
            attempt: 1,
            files: entries.collect(),
        };
        self.store.save_checkpoint(&record).await.unwrap();
        let points = self.points.entry(digest).or_default();
        points.push((self.steps, files.into_iter().collect()));
        // The newest two are kept.
        points.drain(..points.len().saturating_sub(2));
    }
    async fn finish(&mut self) {
        if let Some(run) = self.unfinished() {
            self.end(&run).await;
        }
    }
    pub async fn end(&mut self, run: &RunId) {
        self.append(run, &[finished()]).await;
        self.runs.get_mut(run).unwrap().finished = true;
    }
    async fn resume(&mut self) {
        let over: Vec<_> = self.runs.iter().filter(|(_, run)| run.finished).map(|(id, _)| id.clone()).collect();
        if over.is_empty() {
            return;
        }
        let id = self.draws.choose(&over).clone();
        let (writer, before) = JournalWriter::open(&self.store, &id, "w", opened).await.unwrap();
        let run = self.runs.get_mut(&id).unwrap();
        assert_eq!(before.len(), run.events, "the journal of {id} is whole");
        run.writer = Some(writer);
        run.events += 1;
        run.finished = false;
        // A reopened run looks everything up again.
        run.uses.clear();
        run.results.clear();
    }
    async fn pin(&mut self) {
        let keys: Vec<_> = self.made.keys().cloned().collect();
        if keys.is_empty() {
            return;
        }
        let key = self.draws.choose(&keys).clone();
        if self.pins.remove(&key) {
            assert!(self.store.set_pin(&key.0, key.1, false, None).await.unwrap());
        } else if self.is_sound(&key).await {
            assert!(self.store.set_pin(&key.0, key.1, true, None).await.unwrap());
            self.pins.insert(key);
        }
    }
    async fn tick(&mut self) {
        let names = ["hourly", "nightly"];
        let name = names[self.draws.below(2) as usize];
        let run = self.begin().await;
        let tick = format!("{:020}", self.steps);
        self.store.fire_tick(name, &tick, json!({"run": run}).to_string().into()).await.unwrap();
        self.ticks.insert(name.to_string(), run);
    }
    /// Whether a manifest is published and is no tombstone.
    pub async fn is_sound(&self, key: &Key) -> bool {
        matches!(self.store.manifest_at(&key.0, key.1).await, Ok(Some(_)))
    }
    pub async fn has(&self, object: &Digest) -> bool {
        self.store.has_object(object, 1).await.unwrap()
    }
    /// Whether the journal of a run contains all written events.
    pub async fn has_journal(&self, run: &RunId) -> bool {
        let batches = JournalReader::read_all(&self.store, run).await.unwrap();
        batches.iter().map(|batch| batch.events.len()).sum::<usize>() == self.runs[run].events
    }
    /// Returns these manifests and their lineage.
    pub fn lineage(&self, keys: impl IntoIterator<Item = Key>) -> BTreeSet<Key> {
        let mut all = BTreeSet::new();
        for key in keys {
            let before = self.made[&key].inputs.clone();
            all.extend(self.lineage(before));
            all.insert(key);
        }
        all
    }
    /// Returns, for each stage of each workflow, the manifests that were used last, among the intact ones.
    pub async fn last_used(&self, count: usize) -> BTreeSet<Key> {
        let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (key, made) in &self.made {
            if self.is_sound(key).await {
                let users = self.runs.iter().filter(|(_, run)| run.named.contains(key)).map(|(id, _)| id);
                let last = users.chain([&made.run]).max().unwrap();
                groups.entry(made.group.clone()).or_default().push((last.clone(), key.1, key.clone()));
            }
        }
        let newest = |mut all: Vec<(RunId, u32, Key)>| {
            all.sort();
            all.into_iter().rev().take(count).map(|(_, _, key)| key)
        };
        groups.into_values().flat_map(newest).collect()
    }
}
