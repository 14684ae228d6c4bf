//! Publishes the outputs of a stage by putting their manifest, and looks manifests up.
//!
//! A stage usually has generation 0 alone; a later generation is put only with a reason. A lookup finds the highest
//! generation by reading generations upward until one is missing. If generation 1 exists, a listing determines where
//! the search continues. An unreadable manifest (a power loss may leave an empty file) keeps its generation, and the
//! stage publishes the next one. The same holds for a manifest that garbage collection has replaced by a
//! [`CollectedManifest`]. A manifest of a newer program is an error of kind invalid, not damage.

use crate::collected_manifest::CollectedManifest;
use crate::connection::CreateOutcome;
use crate::damage::require_inside;
use crate::layout;
use crate::store::Store;
use bytes::Bytes;
use serde::Deserialize;
use trainyard_core::artifact::require_finite;
use trainyard_core::error::Context as _;
use trainyard_core::{Digest, Error, ErrorKind, Manifest, Result};

/// Version of the manifest format.
const FORMAT: u32 = 1;

/// The highest generation of a stage digest.
#[derive(Debug, Clone, PartialEq)]
pub enum NewestManifest {
    /// No generation is published.
    Missing,
    /// Intact manifest.
    Sound(Box<Manifest>),
    /// The bytes are not a manifest of this stage and generation, or they are a tombstone.
    Damaged {
        /// Generation number.
        generation: u32,
        /// Error of the bytes.
        error: Error,
    },
}

/// The outcome of a publication.
#[derive(Debug, Clone, PartialEq)]
pub enum PublishOutcome {
    /// Our manifest is the published one.
    Ours,
    /// Another writer published first; this is its manifest.
    Theirs(Box<Manifest>),
}

impl Store {
    /// Returns the highest generation, readable or not. Errors: invalid (a newer program wrote one), retryable
    /// (network).
    pub async fn newest(&self, stage: &Digest) -> Result<NewestManifest> {
        let (mut newest, mut generation) = (NewestManifest::Missing, 0);
        loop {
            newest = match self.manifest_at(stage, generation).await {
                Ok(Some(manifest)) => NewestManifest::Sound(Box::new(manifest)),
                Ok(None) => return Ok(newest),
                Err(error) if error.kind == ErrorKind::Data => NewestManifest::Damaged { generation, error },
                Err(error) => return Err(error),
            };
            // Nearly all stages have only generation 0, which one more read confirms. For a stage that runs every
            // night, a listing avoids reading all generations. A stale listing is followed by more reads.
            generation = if generation == 1 { self.last_listed(stage).await?.max(2) } else { generation + 1 };
        }
    }
    /// Returns the highest generation in a listing.
    async fn last_listed(&self, stage: &Digest) -> Result<u32> {
        let names = self.list(&layout::manifests(stage)).await?;
        Ok(names.iter().filter_map(|name| split_name(name)).map(|(_, generation)| generation).max().unwrap_or(0))
    }
    /// Returns the manifest of the highest generation. Errors: those of [`Store::newest`], data (it is damaged).
    pub async fn manifest(&self, stage: &Digest) -> Result<Option<Manifest>> {
        match self.newest(stage).await? {
            NewestManifest::Missing => Ok(None),
            NewestManifest::Sound(manifest) => Ok(Some(*manifest)),
            NewestManifest::Damaged { error, .. } => Err(error),
        }
    }
    /// Returns the manifest of one generation; `None` if it was never published.
    ///
    /// Errors: data (the bytes are not a manifest, or belong to another stage, or are a tombstone), invalid (a newer
    /// program wrote it).
    pub async fn manifest_at(&self, stage: &Digest, generation: u32) -> Result<Option<Manifest>> {
        let path = layout::manifest(stage, generation);
        match self.get(&path).await? {
            Some(bytes) => parse(&path, &bytes, stage, generation).map(Some),
            None => Ok(None),
        }
    }
    /// Puts the manifest under its digest and generation, after checking that every object exists with its size.
    ///
    /// Errors: lost (an object is missing), data (a metric is not finite, a file is not inside of its folder), bug (a
    /// generation without a reason, or without the one before it).
    pub async fn publish(&self, manifest: &Manifest) -> Result<PublishOutcome> {
        require_finite(&manifest.metrics, &manifest.comparisons)
            .at(format!("stage `{}`", manifest.provenance.stage))?;
        self.refuse_hole(manifest).await?;
        for output in manifest.outputs.values() {
            output.files.iter().try_for_each(require_inside)?;
            self.require_objects(&output.files).await?;
        }
        let path = layout::manifest(&manifest.stage_digest, manifest.generation);
        match self.create(&path, encode(&path, manifest)?).await? {
            CreateOutcome::Ours => Ok(PublishOutcome::Ours),
            CreateOutcome::Theirs(bytes) => {
                Ok(PublishOutcome::Theirs(Box::new(parse(&path, &bytes, &manifest.stage_digest, manifest.generation)?)))
            }
        }
    }
    /// Returns stage digest and generation of every manifest, sorted; for display and garbage collection, not for
    /// decisions.
    pub async fn list_manifests(&self) -> Result<Vec<(Digest, u32)>> {
        let names = self.list(layout::ARTIFACTS).await?;
        let mut found: Vec<_> = names.iter().filter_map(|name| split_name(name)).collect();
        found.sort();
        Ok(found)
    }

    async fn refuse_hole(&self, manifest: &Manifest) -> Result<()> {
        let Some(before) = manifest.generation.checked_sub(1) else { return Ok(()) };
        if manifest.reason.is_none() {
            return Err(Error::bug(format!(
                "generation {} of stage {} has no reason",
                manifest.generation,
                manifest.stage_digest.short()
            )));
        }
        if self.connection().size(&layout::manifest(&manifest.stage_digest, before)).await?.is_none() {
            return Err(Error::bug(format!(
                "generation {} of stage {} has no generation {before} before it",
                manifest.generation,
                manifest.stage_digest.short()
            )));
        }
        Ok(())
    }
}

fn encode(path: &str, manifest: &Manifest) -> Result<Bytes> {
    let mut text =
        serde_json::to_vec(manifest).map_err(|e| Error::bug(format!("{path}: this manifest has no JSON form: {e}")))?;
    text.push(b'\n');
    Ok(text.into())
}

pub(crate) fn parse(path: &str, bytes: &[u8], stage: &Digest, generation: u32) -> Result<Manifest> {
    let manifest: Manifest = serde_json::from_slice(bytes).map_err(|e| unreadable(path, bytes, &e))?;
    if manifest.format != FORMAT {
        return Err(newer(path, manifest.format));
    }
    if manifest.stage_digest != *stage || manifest.generation != generation {
        return Err(damaged(format!(
            "{path}: holds the manifest of stage {} generation {}",
            manifest.stage_digest, manifest.generation
        )));
    }
    // Outputs that could never be read again must not be a hit.
    let mut files = manifest.outputs.values().flat_map(|output| &output.files);
    files.try_for_each(require_inside).map_err(|e| damaged(format!("{path}: {}", e.message)))?;
    Ok(manifest)
}

/// Distinguishes a later format from damage.
fn unreadable(path: &str, bytes: &[u8], error: &serde_json::Error) -> Error {
    #[derive(Deserialize)]
    struct ManifestHeader {
        format: u32,
    }
    if let Some(collected) = CollectedManifest::parse(bytes) {
        return collected.error(path);
    }
    match serde_json::from_slice(bytes) {
        Ok(ManifestHeader { format }) if format != FORMAT => newer(path, format),
        Ok(_) | Err(_) => damaged(format!("{path}: not a manifest: {error}")),
    }
}

fn newer(path: &str, format: u32) -> Error {
    Error::invalid(format!("{path}: manifest format {format} is newer than this program")).help("use a newer trainyard")
}

fn damaged(message: String) -> Error {
    Error::data(message).help(
        "the store is damaged there; run the workflow again: the stage runs again and publishes the next generation",
    )
}

/// Parses stage digest and generation from the path of a manifest.
pub(crate) fn split_name(path: &str) -> Option<(Digest, u32)> {
    let mut parts = path.rsplit('/');
    let generation = parts.next()?.strip_suffix(".json")?.parse().ok()?;
    Some((Digest::try_from(parts.next()?.to_string()).ok()?, generation))
}
