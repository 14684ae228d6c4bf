//! Publication: the put of the manifest. The engine made sure that the attempt is current and its metrics are numbers; the
//! store makes sure that every object exists; the create-only put makes sure that there is one winner. So a put that failed may be
//! tried again with the same manifest, whether it landed or not.

use crate::patience::{WAITS, patiently};
use std::sync::Arc;
use trainyard_core::{Manifest, Result};
use trainyard_engine::Publication;
use trainyard_store::{Published, Store};

pub(crate) async fn publish(store: &Store, manifest: &Manifest) -> Result<Publication> {
    Ok(match patiently(&WAITS, || store.publish(manifest)).await? {
        Published::Ours => Publication::Ours,
        Published::Theirs(theirs) => Publication::Theirs(Arc::new(*theirs)),
    })
}
