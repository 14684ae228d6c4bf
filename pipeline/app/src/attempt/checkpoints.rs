//! Saves and restores checkpoints of a stage digest in the store.
//!
//! Saving a checkpoint is best effort: after failed retries, the stage continues without the checkpoint. If the attempt
//! then dies, only the steps since the previous checkpoint are lost.

use super::store_wait::StoreWait;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use trainyard_api::{CheckpointStore, Reporter};
use trainyard_core::artifact::FileEntry;
use trainyard_core::attempt::{AttemptMessage, AttemptSpec, CheckpointRecord, LogLevel};
use trainyard_core::error::io_error;
use trainyard_core::{AttemptNumber, Digest, Error, ErrorKind, Result};
use trainyard_store::{FetchedCheckpoint, SkippedCheckpoint, Store};

/// Maximum time for which a checkpoint request may block the stage.
const OUTAGE_TIMEOUT: Duration = Duration::from_secs(120);

/// Checkpoints of one attempt in the store.
pub struct StoredCheckpoints {
    store: Store,
    wait: StoreWait,
    digest: Digest,
    attempt: AttemptNumber,
    folder: PathBuf,
    reporter: Arc<dyn Reporter>,
}

impl StoredCheckpoints {
    /// Creates the checkpoint store of the attempt `spec`, which restores checkpoints into `folder`.
    pub fn new(
        store: Store,
        wait: StoreWait,
        spec: &AttemptSpec,
        folder: PathBuf,
        reporter: Arc<dyn Reporter>,
    ) -> Self {
        Self { store, wait, digest: spec.stage_digest.clone(), attempt: spec.attempt, folder, reporter }
    }
}

impl CheckpointStore for StoredCheckpoints {
    fn latest(&self) -> Result<Option<(u64, PathBuf)>> {
        let fetched = self.wait.wait_for(self.store.fetch_checkpoint(&self.digest, &self.folder))?;
        self.warn_of_skipped(&fetched);
        Ok(fetched.found.map(|(record, folder)| (record.step, folder)))
    }

    fn save(&self, step: u64, folder: &Path) -> Result<()> {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(|e| io_error(folder, &e))? {
            paths.push(entry.map_err(|e| io_error(folder, &e))?.path());
        }
        let message = match self.put(step, &paths) {
            Ok(()) => AttemptMessage::Checkpoint { step },
            // The checkpoint is skipped after these errors of the store.
            Err(error) if matches!(error.kind, ErrorKind::Retryable | ErrorKind::Invalid | ErrorKind::Lost) => {
                let text = format!("the resume point of step {step} was not stored, and the stage continues: {error}");
                AttemptMessage::Log { level: LogLevel::Warn, text }
            }
            Err(error) => return Err(error),
        };
        self.reporter.report(message);
        Ok(())
    }
}

impl StoredCheckpoints {
    /// Reports a warning for every checkpoint that was skipped.
    fn warn_of_skipped(&self, fetched: &FetchedCheckpoint) {
        let instead = match &fetched.found {
            Some((record, _)) => format!("the one of step {} is used instead", record.step),
            None => "the stage starts from its beginning".to_string(),
        };
        for SkippedCheckpoint { step, attempt, reason } in &fetched.skipped {
            let text = format!("the resume point of step {step} (attempt {attempt}) is skipped: {reason}; {instead}");
            self.reporter.report(AttemptMessage::Log { level: LogLevel::Warn, text });
        }
    }
    fn put(&self, step: u64, paths: &[PathBuf]) -> Result<()> {
        let store = self.store.with_outage(self.store.options().outage.min(OUTAGE_TIMEOUT));
        let mut files = Vec::new();
        for path in paths {
            let (digest, size) = self.wait.wait_for(store.put_object_file(path))?;
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            files.push(FileEntry { path: name, digest, size });
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let record =
            CheckpointRecord { format: 1, stage_digest: self.digest.clone(), step, attempt: self.attempt, files };
        self.wait.wait_for(store.save_checkpoint(&record))
    }
}

/// Checkpoint store of stages without checkpoints.
pub struct NoCheckpoints;

impl CheckpointStore for NoCheckpoints {
    fn latest(&self) -> Result<Option<(u64, PathBuf)>> {
        Ok(None)
    }
    fn save(&self, _: u64, _: &Path) -> Result<()> {
        Err(Error::bug("a stage without resume points stored one"))
    }
}
