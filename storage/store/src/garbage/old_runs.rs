//! Removes a finished run: first its claims, then its journal from the first batch on, then all other files.
//!
//! A mark with the end of the journal is put before the first removal and deleted after the last. An interrupted
//! removal leaves the mark, and the next collection continues. A journal without its first batch cannot be opened, so a
//! partially removed run is never resumed.

use crate::connection::CreateOutcome;
use crate::layout;
use crate::local;
use crate::store::Store;
use trainyard_core::{Result, RunId};

impl Store {
    /// Removes a run whose journal ends before batch `end`. Returns whether it did: a run that was resumed since then
    /// stays.
    pub(super) async fn remove_run(&self, run: &RunId, end: u64) -> Result<bool> {
        let mark = layout::removal(run);
        let end = match self.create(&mark, format!("{end}\n").into()).await? {
            CreateOutcome::Ours => end,
            CreateOutcome::Theirs(before) => String::from_utf8_lossy(&before).trim().parse().unwrap_or(end),
        };
        if self.get(&layout::journal(run, end)).await?.is_some() {
            self.delete(&mark).await?;
            return Ok(false);
        }
        self.remove_claims(run).await?;
        let journal = format!("{}/journal/", layout::run(run));
        // Sorted, so the first batch is removed first.
        let (batches, rest): (Vec<_>, Vec<_>) =
            self.list(&layout::run(run)).await?.into_iter().partition(|path| path.starts_with(&journal));
        for path in batches.iter().chain(rest.iter().filter(|path| **path != mark)) {
            self.delete(path).await?;
        }
        self.delete(&mark).await?;
        if let Some(root) = self.local_root() {
            // On a disk, an empty folder would still look like a run.
            local::remove_empty(&root.join(layout::run(run)));
        }
        Ok(true)
    }

    /// Removes the claims of a run, so that no command begins it again.
    async fn remove_claims(&self, run: &RunId) -> Result<()> {
        for path in self.list(layout::PLANS).await? {
            let claim = self.get(&path).await?.unwrap_or_default();
            if String::from_utf8_lossy(&claim).contains(&run.0) {
                self.delete(&path).await?;
            }
        }
        Ok(())
    }
}
