//! Removes a run that is over: its claims, then its journal from the first batch on, then the rest.
//!
//! A mark that says where the journal ended is put first and removed last. Whoever is interrupted in between leaves it
//! behind, and the next collection goes on there. Without its first batch a journal cannot be opened, so nobody resumes
//! half of a run.

use crate::connection::Created;
use crate::layout;
use crate::local;
use crate::store::Store;
use trainyard_core::{Result, RunId};

impl Store {
    /// Removes a run whose journal ends in front of batch `end`. Returns whether it did: a run that was resumed since
    /// then stays.
    pub(super) async fn remove_run(&self, run: &RunId, end: u64) -> Result<bool> {
        let mark = layout::removal(run);
        let end = match self.create(&mark, format!("{end}\n").into()).await? {
            Created::Ours => end,
            Created::Theirs(before) => String::from_utf8_lossy(&before).trim().parse().unwrap_or(end),
        };
        if self.get(&layout::journal(run, end)).await?.is_some() {
            self.delete(&mark).await?;
            return Ok(false);
        }
        self.remove_claims(run).await?;
        let journal = format!("{}/journal/", layout::run(run));
        // Sorted, so the first batch is the first to go.
        let (batches, rest): (Vec<_>, Vec<_>) =
            self.list(&layout::run(run)).await?.into_iter().partition(|path| path.starts_with(&journal));
        for path in batches.iter().chain(rest.iter().filter(|path| **path != mark)) {
            self.delete(path).await?;
        }
        self.delete(&mark).await?;
        if let Some(root) = self.local_root() {
            // On a disk, a folder would go on to look like a run.
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
