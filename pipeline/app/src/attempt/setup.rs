//! Opens the store and the spec of an attempt by its URL.

use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use trainyard_core::attempt::{AttemptSpec, STORE_OUTAGE};
use trainyard_core::{Error, Result};
use trainyard_store::{MissingFolder, Store, StoreOptions};

/// Creates the runtime of an attempt. Its worker thread does the background work, and the stage runs on the calling
/// thread.
pub fn runtime() -> Result<Runtime> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.map_err(|e| Error::retryable(format!("cannot start the asynchronous runtime: {e}")))
}

/// Opens the store and the spec that an attempt's URL names. The spec sets the durability and the maximum outage of the
/// store, so that these are the same wherever the attempt runs.
pub async fn open(url: &str) -> Result<(Store, AttemptSpec)> {
    // The folder of an attempt contains no `#`, but the path of a store may.
    let (store_url, folder) = url.rsplit_once('#').ok_or_else(|| {
        Error::invalid(format!("`{url}` is not an attempt URL"))
            .help("executors start this command with `<store-url>#<attempt-folder>`")
    })?;
    let store = open_store(store_url, false).await?;
    let spec = store.spec_in(folder).await?;
    let store = if spec.fsync { open_store(store_url, true).await? } else { store };
    Ok((store.with_outage(outage(&spec)), spec))
}

/// Opens the store of an attempt. It does not create a missing store: the engine that started the attempt has verified
/// the store, so it must have been removed since.
pub async fn open_store(url: &str, fsync: bool) -> Result<Store> {
    let options = StoreOptions {
        probe: false,
        missing: MissingFolder::Refuse,
        outage: STORE_OUTAGE,
        durability_fsync: fsync,
        ..StoreOptions::default()
    };
    Store::open(url, options).await
}

/// Returns the maximum tolerated outage of the store.
pub fn outage(spec: &AttemptSpec) -> Duration {
    spec.store_outage_millis.map_or(STORE_OUTAGE, Duration::from_millis)
}

/// Returns the tracing span of the attempt.
pub fn span(spec: &AttemptSpec) -> tracing::Span {
    tracing::info_span!("attempt", run = %spec.run, stage = %spec.stage, attempt = spec.attempt)
}
