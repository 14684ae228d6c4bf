//! Stores checkpoints of long stages: records that list files, put after the objects of those files. Each stage digest
//! keeps its newest two.
//!
//! A listing proposes candidates. A checkpoint is used only if its record is readable and all its objects are intact.
//! Otherwise the previous one is used, and the stage repeats only the steps since then.

use crate::error::file_error;
use crate::fetch::FetchMode;
use crate::layout;
use crate::store::Store;
use std::path::{Path, PathBuf};
use trainyard_core::attempt::CheckpointRecord;
use trainyard_core::{Digest, Error, ErrorKind, Result};

/// Records kept per stage digest.
const KEPT: usize = 2;

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
            if let Err(error) = self.delete(&old).await {
                tracing::info!(%error, "an old resume point was not removed");
            }
        }
        Ok(())
    }
    /// Fetches the files of the newest complete checkpoint into a folder below `scratch`. Skips incomplete, unreadable
    /// and damaged ones; returns `None` if no checkpoint is complete.
    pub async fn fetch_checkpoint(
        &self,
        stage: &Digest,
        scratch: &Path,
    ) -> Result<Option<(CheckpointRecord, PathBuf)>> {
        for path in self.checkpoint_names(stage).await? {
            let Some(record) = self.complete_checkpoint(&path, stage).await? else { continue };
            let folder = scratch.join(format!("{}-{}", record.step, record.attempt));
            std::fs::create_dir_all(&folder).map_err(|e| file_error("make", &folder.display().to_string(), &e))?;
            match self.fetch_files(&record.files, &folder, FetchMode::Link).await {
                Ok(()) => return Ok(Some((record, folder))),
                Err(error) if matches!(error.kind, ErrorKind::Data | ErrorKind::Lost) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
    /// Removes all checkpoints of a stage, in any format. Returns their number.
    pub async fn remove_checkpoints(&self, stage: &Digest) -> Result<usize> {
        let paths = self.checkpoint_names(stage).await?;
        for path in &paths {
            self.delete(path).await?;
        }
        Ok(paths.len())
    }
    /// Returns the record at a path, if it belongs to this stage and its objects exist.
    async fn complete_checkpoint(&self, path: &str, stage: &Digest) -> Result<Option<CheckpointRecord>> {
        let Some(bytes) = self.get(path).await? else { return Ok(None) };
        let Ok(record) = serde_json::from_slice::<CheckpointRecord>(&bytes) else { return Ok(None) };
        let complete = record.format == 1 && record.stage_digest == *stage && self.has_objects(&record.files).await?;
        Ok(complete.then_some(record))
    }
    /// Returns the paths of a stage's checkpoints, newest first.
    async fn checkpoint_names(&self, stage: &Digest) -> Result<Vec<String>> {
        let names = self.list(&layout::checkpoints(stage)).await?;
        let mut dated: Vec<_> = names.into_iter().filter_map(|name| Some((step_and_attempt(&name)?, name))).collect();
        dated.sort_by(|a, b| b.cmp(a));
        Ok(dated.into_iter().map(|(_, name)| name).collect())
    }
}

fn step_and_attempt(path: &str) -> Option<(u64, u32)> {
    let (step, attempt) = path.rsplit('/').next()?.strip_suffix(".json")?.split_once('-')?;
    Some((step.parse().ok()?, attempt.parse().ok()?))
}
