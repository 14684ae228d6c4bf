//! Looks up stage digests, missing inputs, and the result of an attempt. Every lookup is retried if the store fails,
//! since much work may depend on the response.

use crate::retry::{RETRY_DELAYS, with_retries};
use std::sync::Arc;
use trainyard_core::attempt::{AttemptInput, AttemptResult, AttemptSpec};
use trainyard_core::{Digest, Manifest, Result};
use trainyard_engine::LookupResult;
use trainyard_store::Store;
use trainyard_store::manifests::NewestManifest;

/// Looks up the highest generation of a stage digest, sound or damaged. Objects are checked for existence and size, but
/// not read: a reader that finds a damaged object removes it, so it is missing at the next lookup.
pub(crate) async fn look_up(store: &Store, digest: &Digest) -> Result<LookupResult> {
    with_retries(store, &RETRY_DELAYS, || look_up_once(store, digest)).await
}

/// Returns the result that an attempt left; `None` if it left none.
pub(crate) async fn result(store: &Store, spec: &AttemptSpec) -> Result<Option<AttemptResult>> {
    with_retries(store, &RETRY_DELAYS, || store.result(&spec.run, &spec.stage, spec.attempt)).await
}

/// Returns digest and generation of the manifests of inputs with missing objects.
pub(crate) async fn missing_inputs(store: &Store, inputs: &[AttemptInput]) -> Result<Vec<(Digest, u32)>> {
    let mut lost = Vec::new();
    for input in inputs {
        if !with_retries(store, &RETRY_DELAYS, || store.has_objects(&input.output.files)).await? {
            lost.push((input.stage_digest.clone(), input.generation));
        }
    }
    Ok(lost)
}

async fn look_up_once(store: &Store, digest: &Digest) -> Result<LookupResult> {
    let manifest = match store.newest(digest).await? {
        NewestManifest::Missing => return Ok(LookupResult::Miss),
        NewestManifest::Damaged { generation, error } => {
            return Ok(LookupResult::Lost { generation, missing: error.message });
        }
        NewestManifest::Sound(manifest) => manifest,
    };
    Ok(match first_missing(store, &manifest).await? {
        None => LookupResult::Hit(Arc::from(manifest)),
        Some(missing) => LookupResult::Lost { generation: manifest.generation, missing },
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
