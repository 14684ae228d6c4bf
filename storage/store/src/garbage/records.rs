//! Reads manifests and checkpoints, reduced to the fields that a collection needs.
//!
//! An unreadable manifest stops the collection unless its stage has a newer intact generation, because lookups read
//! only the newest one. An unreadable checkpoint is skipped, as lookups skip it too.

use crate::collected_manifest::CollectedManifest;
use crate::connection::ObjectEntry;
use crate::layout;
use crate::manifests::{parse, split_name};
use crate::store::Store;
use futures::{StreamExt, stream};
use serde::Deserialize;
use trainyard_core::attempt::CheckpointRecord;
use trainyard_core::{Digest, Error, ErrorKind, Manifest, Result, RunId, StageKey};

/// Concurrent requests.
pub(super) const CONCURRENT: usize = 16;

/// Stage digest and generation of a manifest.
pub(super) type ManifestKey = (Digest, u32);

/// A manifest, reduced to what a collection needs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ManifestRecord {
    pub key: ManifestKey,
    /// Time at which the manifest or its tombstone was written.
    pub modified: i64,
    /// Whether the record is a tombstone.
    pub collected: bool,
    pub workflow: String,
    pub stage: StageKey,
    pub run: RunId,
    pub inputs: Vec<ManifestKey>,
    pub files: Vec<Digest>,
    /// Content digests of the outputs, which name their indexes.
    pub outputs: Vec<Digest>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct ResumePoint {
    pub path: String,
    pub stage: Digest,
    pub modified: i64,
    pub files: Vec<Digest>,
}

impl ManifestRecord {
    fn of(key: ManifestKey, modified: i64, collected: bool, manifest: Manifest) -> Self {
        let inputs = manifest.inputs.into_values().flatten().map(|input| (input.stage_digest, input.generation));
        let outputs = manifest.outputs.values().map(|output| output.digest.clone()).collect();
        let files = manifest.outputs.into_values().flat_map(|output| output.files).map(|file| file.digest);
        let provenance = manifest.provenance;
        Self {
            key,
            modified,
            collected,
            workflow: provenance.workflow,
            stage: provenance.stage,
            run: provenance.run,
            inputs: inputs.collect(),
            outputs,
            files: files.collect(),
        }
    }
}

/// Reads all manifests, sorted by key. Errors: data (a relevant one cannot be read), invalid (a newer program wrote
/// it).
pub(super) async fn records(store: &Store) -> Result<Vec<ManifestRecord>> {
    let entries = store.connection().list(layout::ARTIFACTS).await?;
    let mut listed: Vec<(ManifestKey, i64)> =
        entries.iter().filter_map(|entry| Some((split_name(&entry.path)?, entry.modified_millis))).collect();
    listed.sort();
    // Newest generation first.
    let reads = stream::iter(listed.into_iter().rev()).map(|(key, modified)| async move {
        let read = record(store, &key, modified).await;
        (key.0, read)
    });
    let mut reads = reads.buffered(CONCURRENT);
    let (mut records, mut published) = (Vec::new(), None);
    while let Some((stage, read)) = reads.next().await {
        match read {
            Ok(Some(record)) => {
                records.push(record);
                published = Some(stage);
            }
            Err(error) if error.kind == ErrorKind::Data && published.as_ref() == Some(&stage) => {}
            Err(error) => return Err(error),
            Ok(None) => {}
        }
    }
    records.reverse();
    Ok(records)
}

async fn record(store: &Store, key: &ManifestKey, modified: i64) -> Result<Option<ManifestRecord>> {
    let path = layout::manifest(&key.0, key.1);
    let Some(bytes) = store.get(&path).await? else { return Ok(None) };
    if let Some(collected) = CollectedManifest::parse(&bytes) {
        return Ok(Some(ManifestRecord::of(key.clone(), modified, true, collected.manifest)));
    }
    let manifest = parse(&path, &bytes, &key.0, key.1)?;
    Ok(Some(ManifestRecord::of(key.clone(), modified, false, manifest)))
}

/// Reads all checkpoints, sorted by path. Errors: invalid (a newer program wrote one).
pub(super) async fn resume_points(store: &Store) -> Result<Vec<ResumePoint>> {
    let entries = store.connection().list(layout::CHECKPOINTS).await?;
    let reads = stream::iter(entries).map(|entry| async move { resume_point(store, entry).await });
    let reads: Vec<_> = reads.buffered(CONCURRENT).collect().await;
    reads.into_iter().filter_map(Result::transpose).collect()
}

async fn resume_point(store: &Store, entry: ObjectEntry) -> Result<Option<ResumePoint>> {
    let ObjectEntry { path, modified_millis: modified, .. } = entry;
    let stage = path.rsplit('/').nth(1).and_then(|digest| Digest::try_from(digest.to_string()).ok());
    let Some((stage, bytes)) = stage.zip(store.get(&path).await?) else { return Ok(None) };
    let files = match serde_json::from_slice::<CheckpointRecord>(&bytes) {
        Ok(record) if record.format == 1 => record.files,
        _ => refuse_newer(&path, &bytes)?,
    };
    let files = files.into_iter().map(|file| file.digest).collect();
    Ok(Some(ResumePoint { path, stage, modified, files }))
}

/// Treats bytes that are not a checkpoint as naming no files, unless a newer program wrote them.
fn refuse_newer<T>(path: &str, bytes: &[u8]) -> Result<Vec<T>> {
    #[derive(Deserialize)]
    struct FormatHeader {
        format: u32,
    }
    match serde_json::from_slice(bytes) {
        Ok(FormatHeader { format }) if format != 1 => {
            Err(Error::invalid(format!("{path}: resume point format {format} is newer than this program"))
                .help("use a newer trainyard"))
        }
        Ok(_) | Err(_) => Ok(Vec::new()),
    }
}
