//! What the store has under a stage digest, and the rows of a table.

use std::sync::Arc;
use std::time::Duration;
use trainyard_core::{Digest, ErrorKind, Manifest, Result};
use trainyard_engine::Looked;
use trainyard_store::Store;
use trainyard_store::manifests::Newest;

/// Waits between tries of a question that fails for a passing reason, in milliseconds.
const RETRIES: [u64; 3] = [500, 2_000, 5_000];

/// The highest generation, whole or not. Objects are checked for existence and size, not read: whoever reads one verifies it, and
/// removes it if it is damaged, so that it is missing here the next time.
pub(crate) async fn look_up(store: &Store, digest: &Digest) -> Result<Looked> {
    for wait in RETRIES {
        match look_once(store, digest).await {
            Err(error) if error.kind == ErrorKind::Retryable => tokio::time::sleep(Duration::from_millis(wait)).await,
            answer => return answer,
        }
    }
    look_once(store, digest).await
}

async fn look_once(store: &Store, digest: &Digest) -> Result<Looked> {
    let manifest = match store.newest(digest).await? {
        Newest::Missing => return Ok(Looked::Miss),
        Newest::Damaged { generation, error } => return Ok(Looked::Lost { generation, what: error.message }),
        Newest::Sound(manifest) => manifest,
    };
    Ok(match first_missing(store, &manifest).await? {
        None => Looked::Hit(Arc::from(manifest)),
        Some(what) => Looked::Lost { generation: manifest.generation, what },
    })
}

async fn first_missing(store: &Store, manifest: &Manifest) -> Result<Option<String>> {
    for (name, output) in &manifest.outputs {
        for file in &output.files {
            if !store.has_object(&file.digest, file.size).await? {
                return Ok(Some(format!("output `{name}`: file `{}` (object {}) is missing", file.path, file.digest.short())));
            }
        }
    }
    Ok(None)
}
