//! From an attempt's URL to its store and its spec.

use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use trainyard_core::attempt::{AttemptSpec, STORE_OUTAGE};
use trainyard_core::{Error, Result};
use trainyard_store::{Missing, Store, StoreOptions};

/// The runtime of an attempt. Its worker carries what goes on beside the stage, which has the thread that calls.
pub fn runtime() -> Result<Runtime> {
    let made = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    made.map_err(|e| Error::retryable(format!("no runtime: {e}")))
}

/// The store and the spec that an attempt's URL names. How durable the store has to be and how long it may be away
/// stand in the spec, so that they are the same wherever the attempt runs.
pub async fn open(url: &str) -> Result<(Store, AttemptSpec)> {
    // The folder of an attempt holds no `#`; the path of a store may.
    let (store_url, folder) = url.rsplit_once('#').ok_or_else(|| {
        Error::invalid(format!("`{url}` is not an attempt URL"))
            .help("executors start this command with `<store-url>#<attempt-folder>`")
    })?;
    // The engine that started this attempt proved the store. If it is gone by now, it must not be made again.
    let missing = Missing::Refuse;
    let options = StoreOptions { probe: false, missing, outage: STORE_OUTAGE, ..StoreOptions::default() };
    let store = Store::open(store_url, options.clone()).await?;
    let spec = store.spec_in(folder).await?;
    let outage = spec.store_outage_millis.map_or(STORE_OUTAGE, Duration::from_millis);
    let store = if spec.fsync {
        Store::open(store_url, StoreOptions { durability_fsync: true, ..options }).await?
    } else {
        store
    };
    Ok((store.with_outage(outage), spec))
}

/// The span of the attempt's diagnostics.
pub fn span(spec: &AttemptSpec) -> tracing::Span {
    tracing::info_span!("attempt", run = %spec.run, stage = %spec.stage, attempt = spec.attempt)
}
