//! Publishes an attempt's result by writing its manifest.
//!
//! The engine has checked that the attempt is current and its metrics are finite, the store checks that every object
//! exists, and the create-only write decides which publication wins. A failed write can therefore be repeated with the
//! same manifest, whether it succeeded or not.

use crate::retry::{RETRY_DELAYS, with_retries};
use std::sync::Arc;
use trainyard_core::{Manifest, Result};
use trainyard_engine::Publication;
use trainyard_store::{PublishOutcome, Store};

pub(crate) async fn publish(store: &Store, manifest: &Manifest) -> Result<Publication> {
    Ok(match with_retries(store, &RETRY_DELAYS, || store.publish(manifest)).await? {
        PublishOutcome::Ours => Publication::Ours,
        PublishOutcome::Theirs(theirs) => Publication::Theirs(Arc::new(*theirs)),
    })
}
