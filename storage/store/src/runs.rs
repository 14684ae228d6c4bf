//! The runs of a store.

use crate::layout;
use crate::store::Store;
use trainyard_core::{Result, RunId};

impl Store {
    /// All runs, oldest first (run ids sort by time).
    pub async fn list_runs(&self) -> Result<Vec<RunId>> {
        let mut runs = Vec::new();
        for month in self.list_folders(layout::RUNS).await? {
            runs.extend(self.list_folders(&format!("{}/{month}", layout::RUNS)).await?.into_iter().map(RunId));
        }
        runs.sort();
        Ok(runs)
    }
}
