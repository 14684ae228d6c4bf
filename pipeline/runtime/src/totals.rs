//! Reads the stored totals of a long finished run.

use trainyard_core::{Result, RunId};
use trainyard_engine::fold::Totals;
use trainyard_store::Store;

/// Reads the stored totals of a run. Returns `None` if they are missing or unreadable, or if the journal has grown
/// since they were stored.
pub(crate) async fn read(store: &Store, run: &RunId) -> Result<Option<Totals>> {
    Ok(store.summary(run).await?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}
