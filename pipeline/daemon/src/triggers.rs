//! Detects new artifacts and files that trigger runs.
//!
//! This module only detects triggers; [`crate::sensor`] decides when, and the reconciler records which of them fire.
//! Changes that occurred while no daemon was running are detected later, so no trigger is missed.

use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use trainyard_core::event::{Event, EventRecord, OutputSummary};
use trainyard_core::{Digest, Error, Result, RunId};
use trainyard_spec::schedule::Trigger;
use trainyard_store::{JournalReader, MissingFolder, Store, StoreOptions, layout};

/// Assumed maximum clock difference between daemons and the store. A run is skipped if its last write is earlier than
/// the start of the schedule by more than this time.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(24 * 3_600);
/// Maximum number of watched files.
const FILES: usize = 100_000;

/// An artifact or file that appeared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TriggerEvent {
    /// Unique name of the trigger.
    pub mark: String,
    /// For files: digests of the current listing and, unless it is the first, the previous one.
    pub listing: Option<(Digest, Option<Digest>)>,
}

/// Trigger of a schedule, with the state of its log.
#[derive(Debug, Clone)]
pub struct TriggerQuery {
    pub schedule: String,
    pub trigger: Trigger,
    /// Time (Unix milliseconds) before which artifacts are ignored.
    pub since: i64,
    /// Digest of the last recorded listing of files.
    pub known: Option<Digest>,
}

/// Known state of the files and artifacts that one schedule watches. A poll that is dropped loses nothing: the next one
/// continues from the state that it left.
#[derive(Default)]
pub struct TriggerWatchers {
    files: FileWatcher,
    artifacts: ArtifactWatcher,
}

/// Known state of the watched files.
#[derive(Default)]
struct FileWatcher {
    place: Option<(String, Store)>,
    /// Listing of the last check. Changes count only once two consecutive listings are equal, so that no incomplete
    /// file is used.
    last: Option<FileListing>,
    /// Last stored listing, with its digest.
    before: Option<(Digest, FileListing)>,
}

/// Size in bytes and modification time of each file, by name.
type FileListing = BTreeMap<String, (u64, i64)>;

/// Known state of runs.
#[derive(Default)]
struct ArtifactWatcher {
    trigger: Option<Trigger>,
    /// Unfinished runs, each read up to some batch.
    unfinished: BTreeMap<RunId, RunCursor>,
    finished: BTreeSet<RunId>,
    /// Artifacts that no poll has returned yet.
    found: Vec<TriggerEvent>,
}

struct RunCursor {
    journal: JournalReader,
    workflow: Option<String>,
}

impl TriggerWatchers {
    /// Returns new triggers, oldest first, perhaps with repetitions. Errors: those of the store, or of the location of
    /// the files.
    pub async fn poll(&mut self, store: &Store, query: &TriggerQuery) -> Result<Vec<TriggerEvent>> {
        match &query.trigger {
            Trigger::Artifact(_) => self.artifacts.poll(store, &query.trigger, query.since).await,
            Trigger::Files(place) => self.files.poll(store, &query.schedule, place, query.known.as_ref()).await,
        }
    }
}

impl FileWatcher {
    async fn poll(
        &mut self,
        store: &Store,
        schedule: &str,
        url: &str,
        known: Option<&Digest>,
    ) -> Result<Vec<TriggerEvent>> {
        let now = self.list(url).await?;
        let is_stable = self.last.as_ref() == Some(&now);
        self.last = Some(now.clone());
        if !is_stable {
            return Ok(Vec::new());
        }
        let before = match known {
            None => None,
            Some(digest) => Some(self.stored(store, schedule, digest).await?),
        };
        let new = new_files(before.as_ref(), &now);
        if new.is_empty() && before.is_some() {
            return Ok(Vec::new());
        }
        let bytes = encode(&now)?;
        let digest = Digest::of(&bytes);
        store.create(&layout::schedule_texts(schedule, &digest), bytes).await?;
        let mark = Digest::of_json(&new)?.as_str()[..32].to_string();
        self.before = Some((digest.clone(), now));
        Ok(vec![TriggerEvent { mark, listing: Some((digest, known.cloned())) }])
    }
    async fn list(&mut self, url: &str) -> Result<FileListing> {
        if self.place.as_ref().is_none_or(|(known, _)| known != url) {
            let options = StoreOptions {
                read_only: true,
                probe: false,
                missing: MissingFolder::Empty,
                ..StoreOptions::default()
            };
            *self = Self { place: Some((url.to_string(), Store::open(url, options).await?)), ..Self::default() };
        }
        let Some((_, place)) = &self.place else { return Ok(FileListing::new()) };
        let found = place.entries("").await?;
        if found.len() > FILES {
            return Err(Error::invalid(format!("{} files in {url}, more than {FILES}", found.len()))
                .help("use a separate folder or prefix for the files"));
        }
        Ok(found.into_iter().map(|entry| (entry.path, (entry.size, entry.modified_millis))).collect())
    }
    async fn stored(&mut self, store: &Store, schedule: &str, digest: &Digest) -> Result<FileListing> {
        if let Some((known, listing)) = &self.before
            && known == digest
        {
            return Ok(listing.clone());
        }
        let path = layout::schedule_texts(schedule, digest);
        let bytes = store.get(&path).await?;
        let bytes = bytes.ok_or_else(|| Error::lost(format!("{}/{path} does not exist", store.url())))?;
        let listing: FileListing = serde_json::from_slice(&bytes)
            .map_err(|e| Error::data(format!("{}/{path} is damaged: {e}", store.url())))?;
        self.before = Some((digest.clone(), listing.clone()));
        Ok(listing)
    }
}

/// Returns the files of `now` that are new or have another size or time.
fn new_files<'a>(before: Option<&FileListing>, now: &'a FileListing) -> Vec<(&'a String, &'a (u64, i64))> {
    now.iter().filter(|(name, entry)| before.is_none_or(|before| before.get(*name) != Some(*entry))).collect()
}

fn encode(listing: &FileListing) -> Result<Bytes> {
    serde_json::to_vec(listing).map(Bytes::from).map_err(|e| Error::bug(format!("a listing has no JSON form: {e}")))
}

impl ArtifactWatcher {
    async fn poll(&mut self, store: &Store, trigger: &Trigger, since: i64) -> Result<Vec<TriggerEvent>> {
        if self.trigger.as_ref() != Some(trigger) {
            let finished = idle_runs(store, since).await?;
            *self = Self { trigger: Some(trigger.clone()), finished, ..Self::default() };
        }
        let runs: BTreeSet<RunId> = store.list_runs().await?.into_iter().collect();
        self.finished.retain(|run| runs.contains(run));
        self.unfinished.retain(|run, _| runs.contains(run));
        for run in runs {
            if !self.finished.contains(&run) && !self.unfinished.contains_key(&run) {
                let journal = JournalReader::new(store, &run);
                self.unfinished.insert(run, RunCursor { journal, workflow: None });
            }
        }
        let mut ended = Vec::new();
        for (run, cursor) in &mut self.unfinished {
            if cursor.read(trigger, since, &mut self.found).await? {
                ended.push(run.clone());
            }
        }
        for run in ended {
            self.unfinished.remove(&run);
            self.finished.insert(run);
        }
        Ok(std::mem::take(&mut self.found))
    }
}

/// Returns the runs without writes since a time, whose artifacts can be ignored. The start of a run does not suffice,
/// since a run may take months; one listing of the store gives the last writes of all runs.
async fn idle_runs(store: &Store, since: i64) -> Result<BTreeSet<RunId>> {
    let mut last: BTreeMap<RunId, i64> = BTreeMap::new();
    for entry in store.entries(layout::RUNS).await? {
        if let Some(run) = entry.path.split('/').nth(2) {
            let last = last.entry(RunId(run.to_string())).or_insert(i64::MIN);
            *last = entry.modified_millis.max(*last);
        }
    }
    let since = since.saturating_sub(i64::try_from(MAX_CLOCK_SKEW.as_millis()).unwrap_or(i64::MAX));
    Ok(last.into_iter().filter(|(_, at)| *at < since).map(|(run, _)| run).collect())
}

impl RunCursor {
    /// Reads further batches; returns whether the run is over or can be ignored. A run resumed after its end is not
    /// followed.
    async fn read(&mut self, trigger: &Trigger, since: i64, found: &mut Vec<TriggerEvent>) -> Result<bool> {
        let Some((workflow, stage, port)) = trigger.artifact() else { return Ok(true) };
        loop {
            let batch = match self.journal.next().await {
                Ok(Some(batch)) => batch,
                Ok(None) => return Ok(false),
                // Damage is permanent, and must not hide artifacts of other runs.
                Err(error) if error.kind == trainyard_core::ErrorKind::Data => return Ok(true),
                Err(error) => return Err(error),
            };
            for value in &batch.events {
                let record = EventRecord::from_value(value)?;
                match record.event {
                    Event::RunCreated { workflow: name, .. } => self.workflow = Some(name),
                    Event::RunFinished { .. } => return Ok(true),
                    Event::Published { stage: key, outputs, .. }
                        if record.at > since
                            && key.stage_id() == stage
                            && self.workflow.as_deref() == Some(workflow) =>
                    {
                        found.extend(outputs.get(port).map(of_artifact));
                    }
                    _ => {}
                }
            }
            if self.workflow.as_deref().is_some_and(|name| name != workflow) {
                return Ok(true);
            }
        }
    }
}

fn of_artifact(output: &OutputSummary) -> TriggerEvent {
    TriggerEvent { mark: output.digest.to_string(), listing: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use trainyard_core::{Clock, SystemClock};
    use trainyard_store::JournalWriter;

    async fn store() -> Store {
        Store::open("memory://", StoreOptions::default()).await.unwrap()
    }

    /// Begins a run of the workflow `w`, with its first events.
    async fn begin(store: &Store, run: &str) -> JournalWriter {
        let run = RunId(run.into());
        let opened = |epoch| value(json!({"type": "writer_opened", "epoch": epoch, "writer": "t"}));
        let (mut writer, _) = JournalWriter::open(store, &run, "t", opened).await.unwrap();
        let created = json!({
            "type": "run_created", "format": 1, "workflow": "w", "source": "/w.yaml", "plan_digest": Digest::of(b"p"),
            "params": {}, "stages": [],
        });
        writer.append(&[value(created)]).await.unwrap();
        writer
    }
    fn value(event: serde_json::Value) -> serde_json::Value {
        let event: Event = serde_json::from_value(event).unwrap();
        EventRecord { at: NOW, event }.to_value().unwrap()
    }
    const NOW: i64 = 1_795_234_530_042;

    #[tokio::test]
    async fn late_publication_of_an_old_run_is_detected() {
        let store = store().await;
        let mut old = begin(&store, "20260101-000000-000000").await;
        for number in 0..600 {
            let mut run = begin(&store, &format!("20261121-000000-{number:06}")).await;
            run.append(&[value(json!({"type": "run_finished", "outcome": "succeeded"}))]).await.unwrap();
        }
        let output = json!({"kind": "model", "digest": Digest::of(b"m"), "size": 1});
        let published = json!({
            "type": "published", "stage": "rl", "attempt": 1, "digest": Digest::of(b"s"), "generation": 0,
            "outputs": {"model": output},
        });
        old.append(&[value(published)]).await.unwrap();
        let trigger = Trigger::Artifact("w.rl.model".into());
        let found = ArtifactWatcher::default().poll(&store, &trigger, NOW - 1).await.unwrap();
        let appeared = TriggerEvent { mark: Digest::of(b"m").to_string(), listing: None };
        assert_eq!(found, [appeared]);
        assert_eq!(
            ArtifactWatcher::default().poll(&store, &trigger, NOW).await.unwrap(),
            [],
            "it was published before"
        );
        let later = SystemClock::new().unix_millis() + 2 * MAX_CLOCK_SKEW.as_millis() as i64;
        assert_eq!(idle_runs(&store, later).await.unwrap().len(), 601);
        assert!(idle_runs(&store, NOW.min(later - 3 * MAX_CLOCK_SKEW.as_millis() as i64)).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn files_trigger_once_after_they_stop_changing() {
        let folder = tempfile::tempdir().unwrap();
        let url = folder.path().display().to_string();
        let (store, mut files) = (store().await, FileWatcher::default());
        std::fs::write(folder.path().join("old.csv"), "1").unwrap();
        assert_eq!(files.poll(&store, "s", &url, None).await.unwrap(), [], "it may still grow");
        let first = files.poll(&store, "s", &url, None).await.unwrap().remove(0);
        let (base, before) = first.listing.unwrap();
        assert_eq!(before, None, "what lies there at first only begins the listing");
        assert_eq!(files.poll(&store, "s", &url, Some(&base)).await.unwrap(), []);
        std::fs::write(folder.path().join("new.csv"), "22").unwrap();
        assert_eq!(files.poll(&store, "s", &url, Some(&base)).await.unwrap(), []);
        let new = files.poll(&store, "s", &url, Some(&base)).await.unwrap().remove(0);
        let (listing, before) = new.listing.clone().unwrap();
        assert_eq!(before.as_ref(), Some(&base));
        let mut other = FileWatcher::default();
        other.poll(&store, "s", &url, Some(&base)).await.unwrap();
        let same = other.poll(&store, "s", &url, Some(&base)).await.unwrap();
        assert_eq!(same, [new], "another daemon finds the same");
        assert_eq!(files.poll(&store, "s", &url, Some(&listing)).await.unwrap(), []);
        std::fs::remove_file(folder.path().join("old.csv")).unwrap();
        files.poll(&store, "s", &url, Some(&listing)).await.unwrap();
        assert_eq!(files.poll(&store, "s", &url, Some(&listing)).await.unwrap(), [], "what goes away is not new");
    }
}
