//! Totals of a long finished run.

use trainyard_core::{Result, RunId};
use trainyard_engine::fold::Totals;
use trainyard_store::Store;

/// Reads the summary of a run whose journal ends where the summary says; an unreadable summary counts as missing.
pub(crate) async fn read(store: &Store, run: &RunId) -> Result<Option<Totals>> {
    Ok(store.summary(run).await?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}
