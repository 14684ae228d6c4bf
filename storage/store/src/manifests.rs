//! Manifests: the put of one IS the publication of a stage's outputs.
//!
//! Generation 0 is the normal one; g+1 is written only with a reason. The highest generation is found by reading forward, never
//! by a listing. A manifest that cannot be read (a power loss may leave it empty) is damage like a missing object: it still takes
//! its generation, and the stage publishes the next one. Refuses: a metric that is no finite number, a generation with a hole
//! before it, an object that is not there, and taking for damage what a newer program wrote.

use crate::connection::Created;
use crate::layout;
use crate::store::Store;
use bytes::Bytes;
use serde::Deserialize;
use trainyard_core::metric::address;
use trainyard_core::{Digest, Error, ErrorKind, Manifest, Result};

/// Version of the manifest's form.
const FORMAT: u32 = 1;

/// What stands at the highest generation of a stage digest.
#[derive(Debug, Clone, PartialEq)]
pub enum Newest {
    /// Nothing was published yet.
    Missing,
    Sound(Box<Manifest>),
    /// Its bytes are no manifest of this stage and generation.
    Damaged {
        generation: u32,
        error: Error,
    },
}

/// The outcome of a publication.
#[derive(Debug, Clone, PartialEq)]
pub enum Published {
    /// Our manifest stands.
    Ours,
    /// Another writer was first; this is what it published.
    Theirs(Box<Manifest>),
}

impl Store {
    /// The highest generation, whether it can be read or not. Errors: invalid (a newer program wrote one), retryable (network).
    pub async fn newest(&self, stage: &Digest) -> Result<Newest> {
        let mut newest = Newest::Missing;
        for generation in 0.. {
            newest = match self.manifest_at(stage, generation).await {
                Ok(Some(manifest)) => Newest::Sound(Box::new(manifest)),
                Ok(None) => break,
                Err(error) if error.kind == ErrorKind::Data => Newest::Damaged { generation, error },
                Err(error) => return Err(error),
            };
        }
        Ok(newest)
    }
    /// The manifest of the highest generation. Errors: those of [`Store::newest`], data (it is damaged).
    pub async fn manifest(&self, stage: &Digest) -> Result<Option<Manifest>> {
        match self.newest(stage).await? {
            Newest::Missing => Ok(None),
            Newest::Sound(manifest) => Ok(Some(*manifest)),
            Newest::Damaged { error, .. } => Err(error),
        }
    }
    /// The manifest of one generation. Errors: data (the bytes are no manifest, or that of another stage), invalid (a newer
    /// program wrote it).
    pub async fn manifest_at(&self, stage: &Digest, generation: u32) -> Result<Option<Manifest>> {
        let path = layout::manifest(stage, generation);
        match self.get(&path).await? {
            Some(bytes) => parse(&path, &bytes, stage, generation).map(Some),
            None => Ok(None),
        }
    }
    /// Puts the manifest at its digest and generation, after a check that every object exists with its size.
    /// Errors: lost (an object is missing), data (a metric is not finite), bug (generation without the one before or a reason).
    pub async fn publish(&self, manifest: &Manifest) -> Result<Published> {
        refuse_bad_numbers(manifest)?;
        self.refuse_hole(manifest).await?;
        for output in manifest.outputs.values() {
            self.require_objects(&output.files).await?;
        }
        let path = layout::manifest(&manifest.stage_digest, manifest.generation);
        match self.create(&path, encode(&path, manifest)?).await? {
            Created::Ours => Ok(Published::Ours),
            Created::Theirs(bytes) => {
                Ok(Published::Theirs(Box::new(parse(&path, &bytes, &manifest.stage_digest, manifest.generation)?)))
            }
        }
    }
    /// Stage digest and generation of every manifest, sorted. For people and garbage collection; it decides nothing.
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

fn parse(path: &str, bytes: &[u8], stage: &Digest, generation: u32) -> Result<Manifest> {
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
    Ok(manifest)
}

/// A form that this program does not know may be a later one rather than damage.
fn unreadable(path: &str, bytes: &[u8], error: &serde_json::Error) -> Error {
    #[derive(Deserialize)]
    struct Header {
        format: u32,
    }
    match serde_json::from_slice(bytes) {
        Ok(Header { format }) if format != FORMAT => newer(path, format),
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

fn refuse_bad_numbers(manifest: &Manifest) -> Result<()> {
    let plain =
        manifest.metrics.iter().map(|(name, value)| (name.clone(), *value)).find(|(_, value)| !value.is_finite());
    let compared = || {
        manifest.comparisons.iter().find_map(|c| c.broken().map(|(of, value)| (address(&c.metric, Some(of)), value)))
    };
    match plain.or_else(compared) {
        Some((name, value)) => Err(Error::data(format!(
            "stage {}: metric `{name}` is {value}, not a finite number",
            manifest.provenance.stage
        ))),
        None => Ok(()),
    }
}

fn split_name(path: &str) -> Option<(Digest, u32)> {
    let mut parts = path.rsplit('/');
    let generation = parts.next()?.strip_suffix(".json")?.parse().ok()?;
    Some((Digest::try_from(parts.next()?.to_string()).ok()?, generation))
}
