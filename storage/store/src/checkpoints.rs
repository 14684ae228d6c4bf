//! Stores checkpoints of long stages: records that list files, put after the objects of those files. Each stage digest
//! keeps its newest two.
//!
//! A listing proposes candidates. A checkpoint is used only if its record is readable and all its objects are intact.
//! Otherwise the previous one is used, and the stage repeats only the steps since then. The caller gets the reason, so
//! that it can warn.

use crate::damage::missing;
use crate::error::file_error;
use crate::fetch::FetchMode;
use crate::layout;
use crate::store::Store;
use std::path::{Path, PathBuf};
use trainyard_core::attempt::CheckpointRecord;
use trainyard_core::{AttemptNumber, Digest, Error, ErrorKind, Result};

/// Records kept per stage digest.
const KEPT: usize = 2;

/// Result of a search for the newest usable checkpoint of a stage.
#[derive(Debug)]
pub struct FetchedCheckpoint {
    /// Record, and folder with the files; `None` if no checkpoint is usable.
    pub found: Option<(CheckpointRecord, PathBuf)>,
    /// Newer checkpoints that are not usable, newest first.
    pub skipped: Vec<SkippedCheckpoint>,
}

/// Checkpoint that is incomplete, unreadable or damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedCheckpoint {
    /// Steps done.
    pub step: u64,
    /// Attempt that stored the checkpoint.
    pub attempt: AttemptNumber,
    /// Defect, with the path of the record or object.
    pub reason: String,
}

/// Usable part of a checkpoint, or the reason why the checkpoint is not usable; `None` if it was removed.
type Usable<T> = Option<Result<T, String>>;

/// Name of a checkpoint in a listing. The order is by step, then by attempt.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CheckpointName {
    step: u64,
    attempt: AttemptNumber,
    path: String,
}

impl Store {
    /// Puts a checkpoint whose objects are all stored, and removes all but the newest two. If another run's attempt of
    /// the same number has stored this step already, its record stays.
    ///
    /// Errors: lost (an object is missing), retryable, invalid.
    pub async fn save_checkpoint(&self, record: &CheckpointRecord) -> Result<()> {
        self.require_objects(&record.files).await?;
        let path = layout::checkpoint(&record.stage_digest, record.step, record.attempt);
        let bytes =
            serde_json::to_vec(record).map_err(|e| Error::bug(format!("{path}: this record has no JSON form: {e}")))?;
        self.create(&path, bytes.into()).await?;
        for old in self.checkpoint_names(&record.stage_digest).await?.into_iter().skip(KEPT) {
            // A leftover checkpoint is harmless.
            if let Err(error) = self.delete(&old.path).await {
                tracing::info!(%error, "an old resume point was not removed");
            }
        }
        Ok(())
    }
    /// Fetches the files of the newest complete checkpoint into a folder below `scratch`. Skips incomplete, unreadable
    /// and damaged ones, and returns why.
    pub async fn fetch_checkpoint(&self, stage: &Digest, scratch: &Path) -> Result<FetchedCheckpoint> {
        let mut skipped = Vec::new();
        for name in self.checkpoint_names(stage).await? {
            match self.fetch_named(&name, stage, scratch).await? {
                Some(Ok(found)) => return Ok(FetchedCheckpoint { found: Some(found), skipped }),
                Some(Err(reason)) => {
                    skipped.push(SkippedCheckpoint { step: name.step, attempt: name.attempt, reason });
                }
                // Removed after the listing.
                None => {}
            }
        }
        Ok(FetchedCheckpoint { found: None, skipped })
    }
    /// Removes all checkpoints of a stage, in any format. Returns their number.
    pub async fn remove_checkpoints(&self, stage: &Digest) -> Result<usize> {
        let names = self.checkpoint_names(stage).await?;
        for name in &names {
            self.delete(&name.path).await?;
        }
        Ok(names.len())
    }
    /// Fetches the files of a checkpoint into a folder below `scratch`.
    async fn fetch_named(
        &self,
        name: &CheckpointName,
        stage: &Digest,
        scratch: &Path,
    ) -> Result<Usable<(CheckpointRecord, PathBuf)>> {
        let record = match self.complete_checkpoint(&name.path, stage).await? {
            Some(Ok(record)) => record,
            Some(Err(reason)) => return Ok(Some(Err(reason))),
            None => return Ok(None),
        };
        let folder = scratch.join(format!("{}-{}", record.step, record.attempt));
        std::fs::create_dir_all(&folder).map_err(|e| file_error("make", &folder.display().to_string(), &e))?;
        match self.fetch_files(&record.files, &folder, FetchMode::Link).await {
            Ok(()) => Ok(Some(Ok((record, folder)))),
            Err(error) if matches!(error.kind, ErrorKind::Data | ErrorKind::Lost) => Ok(Some(Err(error.message))),
            Err(error) => Err(error),
        }
    }
    /// Returns the record at a path, if it belongs to this stage and its objects exist.
    async fn complete_checkpoint(&self, path: &str, stage: &Digest) -> Result<Usable<CheckpointRecord>> {
        let Some(bytes) = self.get(path).await? else { return Ok(None) };
        let place = format!("{}/{path}", self.url());
        let record = match serde_json::from_slice::<CheckpointRecord>(&bytes) {
            Ok(record) => record,
            Err(error) => return Ok(Some(Err(format!("{place} is damaged: {error}")))),
        };
        if record.format != 1 {
            return Ok(Some(Err(format!("{place} has the unknown format {}", record.format))));
        }
        if record.stage_digest != *stage {
            return Ok(Some(Err(format!("{place} belongs to the stage {}", record.stage_digest))));
        }
        let absent = self.first_missing(&record.files).await?.map(|file| layout::object(&file.digest));
        Ok(Some(match absent {
            Some(object) => Err(missing(self.url(), &object).message),
            None => Ok(record),
        }))
    }
    /// Returns the names of a stage's checkpoints, newest first.
    async fn checkpoint_names(&self, stage: &Digest) -> Result<Vec<CheckpointName>> {
        let paths = self.list(&layout::checkpoints(stage)).await?;
        let mut names: Vec<_> = paths.into_iter().filter_map(CheckpointName::parse).collect();
        names.sort_by(|a, b| b.cmp(a));
        Ok(names)
    }
}

impl CheckpointName {
    /// Parses step and attempt from a path; returns `None` for another file.
    fn parse(path: String) -> Option<Self> {
        let (step, attempt) = path.rsplit('/').next()?.strip_suffix(".json")?.split_once('-')?;
        Some(Self { step: step.parse().ok()?, attempt: attempt.parse().ok()?, path })
    }
}
