//! Resume points of long stages: a record that lists files, put after the files. The newest two are kept.
//!
//! A listing proposes candidates; what counts is that a record's bytes can be read and all its objects are there. Deleting old
//! records is a courtesy: one that stays is only older than the newest.

use crate::layout;
use crate::store::Store;
use trainyard_core::attempt::CheckpointRecord;
use trainyard_core::{Digest, Error, Result};

/// Records kept per stage digest.
const KEPT: usize = 2;

impl Store {
    /// Puts a resume point whose objects are all stored, and removes those before the newest two. If this step of this attempt
    /// number is already there (another run's attempt), that one stands.
    /// Errors: lost (an object is missing), retryable, invalid.
    pub async fn save_checkpoint(&self, record: &CheckpointRecord) -> Result<()> {
        self.require_objects(&record.files).await?;
        let path = layout::checkpoint(&record.stage_digest, record.step, record.attempt);
        let bytes = serde_json::to_vec(record).map_err(|e| Error::bug(format!("{path}: this record has no JSON form: {e}")))?;
        self.create(&path, bytes.into()).await?;
        for old in self.checkpoint_names(&record.stage_digest).await?.into_iter().skip(KEPT) {
            self.delete(&old).await?;
        }
        Ok(())
    }
    /// The newest complete resume point: incomplete or unreadable ones are passed over.
    pub async fn latest_checkpoint(&self, stage: &Digest) -> Result<Option<CheckpointRecord>> {
        for path in self.checkpoint_names(stage).await? {
            let Some(bytes) = self.get(&path).await? else { continue };
            let Ok(record) = serde_json::from_slice::<CheckpointRecord>(&bytes) else { continue };
            if record.format == 1 && record.stage_digest == *stage && self.has_objects(&record.files).await? {
                return Ok(Some(record));
            }
        }
        Ok(None)
    }
    /// Paths of a stage's resume points, newest first.
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
