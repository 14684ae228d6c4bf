//! What the store has under a stage digest, and the result of an attempt. Both are asked for again if the store fails,
//! since much work may depend on the answer.

use crate::patience::{WAITS, patiently};
use std::sync::Arc;
use trainyard_core::attempt::{AttemptInput, AttemptResult, AttemptSpec};
use trainyard_core::{Digest, Manifest, Result};
use trainyard_engine::Looked;
use trainyard_store::Store;
use trainyard_store::manifests::Newest;

/// The highest generation, sound or damaged. Objects are checked for existence and size, but not read: a reader that
/// finds one damaged removes it, so it is missing here the next time.
pub(crate) async fn look_up(store: &Store, digest: &Digest) -> Result<Looked> {
    patiently(store, &WAITS, || look_once(store, digest)).await
}

/// The result that an attempt left; none if it left none.
pub(crate) async fn result(store: &Store, spec: &AttemptSpec) -> Result<Option<AttemptResult>> {
    patiently(store, &WAITS, || store.result(&spec.run, &spec.stage, spec.attempt)).await
}

/// Digest and generation of the manifests that name inputs of which an object is missing.
pub(crate) async fn lost(store: &Store, inputs: &[AttemptInput]) -> Result<Vec<(Digest, u32)>> {
    let mut lost = Vec::new();
    for input in inputs {
        if !patiently(store, &WAITS, || store.has_objects(&input.output.files)).await? {
            lost.push((input.stage_digest.clone(), input.generation));
        }
    }
    Ok(lost)
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
                return Ok(Some(format!(
                    "output `{name}`: file `{}` (object {}) is missing",
                    file.path,
                    file.digest.short()
                )));
            }
        }
    }
    Ok(None)
}
