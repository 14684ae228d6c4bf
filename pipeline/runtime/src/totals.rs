//! What a long run that is over left of itself for whoever need not know more.

use trainyard_core::{Result, RunId};
use trainyard_engine::fold::Totals;
use trainyard_store::Store;

/// The summary of a run whose journal ended where the summary says; one that cannot be read is none.
pub(crate) async fn read(store: &Store, run: &RunId) -> Result<Option<Totals>> {
    Ok(store.summary(run).await?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}
