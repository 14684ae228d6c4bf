//! Lists the runs of a store, and stores and reads their summaries.

use crate::layout;
use crate::store::Store;
use bytes::Bytes;
use trainyard_core::{Result, RunId};

impl Store {
    /// Returns all runs, oldest first (run ids sort by time).
    pub async fn list_runs(&self) -> Result<Vec<RunId>> {
        let mut runs = Vec::new();
        for month in self.list_folders(layout::RUNS).await? {
            runs.extend(self.list_folders(&format!("{}/{month}", layout::RUNS)).await?.into_iter().map(RunId));
        }
        runs.sort();
        Ok(runs)
    }
    /// Puts the summary of a run whose journal ends before batch `end`. An existing summary stays.
    pub async fn put_summary(&self, run: &RunId, end: u64, summary: Bytes) -> Result<()> {
        self.create(&layout::summary(run, end), summary).await.map(|_| ())
    }
    /// Returns the summary of a run; `None` if it does not exist or the journal has grown since.
    pub async fn summary(&self, run: &RunId) -> Result<Option<Bytes>> {
        let names = self.list_names(&layout::summaries(run)).await?;
        let Some(end) = names.iter().filter_map(|end| end.parse::<u64>().ok()).max() else { return Ok(None) };
        match self.connection().size(&layout::journal(run, end)).await? {
            Some(_) => Ok(None),
            None => self.get(&layout::summary(run, end)).await,
        }
    }
}
