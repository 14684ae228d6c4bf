//! Collects the data that runs reference: the stage digests in the journals of resumable runs, and the files that specs
//! and results of attempts name.
//!
//! A run is finished when its journal has an end after its last writer. A run with a damaged journal cannot continue,
//! but its attempts may still be working, so the references in the readable part of its journal count.

use super::policy::is_old;
use super::records::{CONCURRENT, ManifestKey};
use super::referenced_files;
use crate::connection::ObjectEntry;
use crate::journal::JournalReader;
use crate::layout;
use crate::store::Store;
use futures::{StreamExt, TryStreamExt, stream};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use trainyard_core::event::{Event, EventRecord};
use trainyard_core::{Digest, ErrorKind, Result, RunId};

/// Whether a run is resumable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum GarbageRunState {
    /// The journal has no end, or does not exist yet.
    #[default]
    Unfinished,
    Finished,
    Damaged,
}

/// A run as a collection sees it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct SurveyedRun {
    pub state: GarbageRunState,
    /// Stage digests in its journal.
    pub digests: BTreeSet<Digest>,
    /// Manifests that it published or took from the cache.
    pub uses: BTreeSet<ManifestKey>,
    /// Number of the batch after its journal's end.
    pub end: u64,
    /// Time of its newest file.
    pub modified: i64,
    /// Whether the newest tick of a schedule names it.
    pub scheduled: bool,
    /// Whether its removal has begun.
    pub marked: bool,
}

impl SurveyedRun {
    /// Whether the run's references must stay, regardless of its age.
    pub fn retains_references(&self) -> bool {
        self.scheduled || self.state != GarbageRunState::Finished
    }
    fn apply(&mut self, event: Event) {
        match event {
            Event::WriterOpened { .. } => self.state = GarbageRunState::Unfinished,
            Event::RunFinished { .. } => self.state = GarbageRunState::Finished,
            Event::StageDigested { digest, .. } | Event::AttemptStarted { digest, .. } => {
                self.digests.insert(digest);
            }
            Event::CacheHit { digest, generation, .. } | Event::Published { digest, generation, .. } => {
                self.uses.insert((digest.clone(), generation));
                self.digests.insert(digest);
            }
            _ => {}
        }
    }
}

/// Returns all runs, and the digests of the files that their attempts name: for resumable runs, of all attempts; for
/// others, of attempts that wrote within `older_than`.
pub(super) async fn runs(
    store: &Store,
    now: i64,
    older_than: Duration,
) -> Result<(BTreeMap<RunId, SurveyedRun>, BTreeSet<Digest>)> {
    let mut folders: BTreeMap<RunId, Vec<ObjectEntry>> = BTreeMap::new();
    for entry in store.connection().list(layout::RUNS).await? {
        if let Some(id) = entry.path.split('/').nth(2) {
            folders.entry(RunId(id.to_string())).or_default().push(entry);
        }
    }
    let ticked = newest_ticks(store).await?;
    let reads = stream::iter(folders).map(|(id, entries)| {
        let scheduled = ticked.iter().any(|tick| tick.contains(&id.0));
        async move {
            let mut run = read(store, &id).await?;
            run.scheduled = scheduled;
            run.modified = entries.iter().map(|entry| entry.modified_millis).max().unwrap_or(now);
            run.marked = entries.iter().any(|entry| entry.path == layout::removal(&id));
            let counts = |entry: &&ObjectEntry| {
                let name = entry.path.rsplit('/').next().unwrap_or_default();
                let names_files =
                    entry.path.split('/').nth(3) == Some("attempts") && matches!(name, "spec.json" | "result.json");
                names_files
                    && (run.state != GarbageRunState::Finished || !is_old(now, entry.modified_millis, older_than))
            };
            let named = attempts(store, entries.iter().filter(counts).map(|entry| entry.path.clone())).await?;
            Ok::<_, trainyard_core::Error>((id, run, named))
        }
    });
    let (mut runs, mut files) = (BTreeMap::new(), BTreeSet::new());
    let mut reads = reads.buffer_unordered(CONCURRENT);
    while let Some((id, run, named)) = reads.try_next().await? {
        files.extend(named);
        runs.insert(id, run);
    }
    Ok((runs, files))
}

/// Folds a journal. Errors: invalid (a newer program wrote it), retryable (network).
async fn read(store: &Store, id: &RunId) -> Result<SurveyedRun> {
    let (mut run, mut journal) = (SurveyedRun::default(), JournalReader::new(store, id));
    loop {
        let read = journal.read_some().await;
        let events = read.and_then(|(batches, is_end)| {
            let values = batches.iter().flat_map(|batch| &batch.events);
            Ok((values.map(EventRecord::from_value).collect::<Result<Vec<_>>>()?, is_end))
        });
        match events {
            Ok((records, is_end)) => {
                records.into_iter().for_each(|record| run.apply(record.event));
                if is_end {
                    run.end = journal.position();
                    return Ok(run);
                }
            }
            Err(error) if error.kind == ErrorKind::Data => return read_damaged(store, id).await,
            Err(error) => return Err(error),
        }
    }
}

/// Reads the readable part of a damaged journal.
async fn read_damaged(store: &Store, id: &RunId) -> Result<SurveyedRun> {
    let (mut run, mut journal) = (SurveyedRun::default(), JournalReader::new(store, id));
    loop {
        match journal.next().await {
            Ok(Some(batch)) => {
                let records = batch.events.iter().filter_map(|event| EventRecord::from_value(event).ok());
                records.for_each(|record| run.apply(record.event));
            }
            Err(error) if error.kind != ErrorKind::Data => return Err(error),
            Ok(None) | Err(_) => return Ok(SurveyedRun { state: GarbageRunState::Damaged, ..run }),
        }
    }
}

/// Returns the digests of the files that these documents name. Unreadable documents are useless and skipped.
async fn attempts(store: &Store, paths: impl Iterator<Item = String>) -> Result<BTreeSet<Digest>> {
    let mut digests = BTreeSet::new();
    for path in paths {
        let Some(bytes) = store.get(&path).await? else { continue };
        match serde_json::from_slice(&bytes) {
            Ok(document) => referenced_files::files(&document, &mut digests),
            Err(error) => tracing::info!(path, %error, "an attempt's file cannot be read"),
        }
    }
    Ok(digests)
}

/// Returns the newest ticks of each schedule, as text: the last by its name, which begins with its time, and the last
/// put. The name of a tick for a trigger has no time, and a backfill puts earlier ticks late.
async fn newest_ticks(store: &Store) -> Result<Vec<String>> {
    let entries = store.connection().list(layout::SCHEDULES).await?;
    let mut by_name: BTreeMap<&str, &ObjectEntry> = BTreeMap::new();
    let mut by_time: BTreeMap<&str, &ObjectEntry> = BTreeMap::new();
    // Sorted, so the last one of a folder is the newest.
    for entry in &entries {
        let Some((folder, _)) = entry.path.rsplit_once('/') else { continue };
        by_name.insert(folder, entry);
        let last = by_time.entry(folder).or_insert(entry);
        if entry.modified_millis >= last.modified_millis {
            *last = entry;
        }
    }
    let paths: BTreeSet<&str> = by_name.values().chain(by_time.values()).map(|entry| entry.path.as_str()).collect();
    let mut ticks = Vec::new();
    for path in paths {
        let bytes = store.get(path).await?.unwrap_or_default();
        ticks.push(String::from_utf8_lossy(&bytes).into_owned());
    }
    Ok(ticks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreOptions;

    #[tokio::test]
    async fn newest_tick_is_the_last_one_put() {
        let store = Store::open("memory://", StoreOptions::default()).await.unwrap();
        for tick in ["on:ff", "2026-11-20T00:00:00Z", "2026-11-21T00:00:00Z", "on:0a"] {
            store.fire_tick("s", tick, tick.into()).await.unwrap();
            std::thread::sleep(Duration::from_millis(3));
        }
        let mut newest = newest_ticks(&store).await.unwrap();
        newest.sort();
        assert_eq!(newest, ["on:0a", "on:ff"], "the last that was put, and the last by its name");
    }
}
