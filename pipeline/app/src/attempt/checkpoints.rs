//! Resume points of a stage digest in the store.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::runtime::Handle;
use trainyard_api::{CheckpointStore, Reporter};
use trainyard_core::artifact::FileEntry;
use trainyard_core::attempt::{AttemptMessage, AttemptSpec, CheckpointRecord};
use trainyard_core::error::io_error;
use trainyard_core::{AttemptNumber, Digest, Result};
use trainyard_store::Store;

/// Resume points of one attempt: what the stage saves goes to the store, and the newest complete one comes from there.
pub struct StoredCheckpoints {
    store: Store,
    handle: Handle,
    digest: Digest,
    attempt: AttemptNumber,
    folder: PathBuf,
    reporter: Arc<dyn Reporter>,
}

impl StoredCheckpoints {
    /// Resume points of the attempt `spec`, restored into and saved from `folder`.
    pub fn new(store: Store, handle: Handle, spec: &AttemptSpec, folder: PathBuf, reporter: Arc<dyn Reporter>) -> Self {
        Self { store, handle, digest: spec.stage_digest.clone(), attempt: spec.attempt, folder, reporter }
    }
}

impl CheckpointStore for StoredCheckpoints {
    fn latest(&self) -> Result<Option<(u64, PathBuf)>> {
        let found = self.handle.block_on(self.store.fetch_checkpoint(&self.digest, &self.folder))?;
        Ok(found.map(|(record, folder)| (record.step, folder)))
    }

    fn save(&self, step: u64, folder: &Path) -> Result<()> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(folder).map_err(|e| io_error(folder, &e))? {
            let path = entry.map_err(|e| io_error(folder, &e))?.path();
            let (digest, size) = self.handle.block_on(self.store.put_object_file(&path))?;
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            files.push(FileEntry { path: name, digest, size });
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let record =
            CheckpointRecord { format: 1, stage_digest: self.digest.clone(), step, attempt: self.attempt, files };
        self.handle.block_on(self.store.save_checkpoint(&record))?;
        self.reporter.report(AttemptMessage::Checkpoint { step });
        Ok(())
    }
}
