//! Manifests: the put of one IS the publication of a stage's outputs.
//!
//! Generation 0 is the normal one; g+1 is written only with a reason. The highest generation is found by reading forward, never
//! by a listing. Refuses: a metric that is no finite number, a generation with a hole before it, an object that is not there.

use crate::connection::Created;
use crate::layout;
use crate::store::Store;
use bytes::Bytes;
use trainyard_core::{Digest, Error, Manifest, Result};

/// The outcome of a publication.
#[derive(Debug, Clone, PartialEq)]
pub enum Published {
    /// Our manifest stands.
    Ours,
    /// Another writer was first; this is what it published.
    Theirs(Box<Manifest>),
}

impl Store {
    /// The manifest of the highest generation.
    pub async fn manifest(&self, stage: &Digest) -> Result<Option<Manifest>> {
        let mut found = None;
        for generation in 0.. {
            match self.manifest_at(stage, generation).await? {
                Some(manifest) => found = Some(manifest),
                None => break,
            }
        }
        Ok(found)
    }
    /// The manifest of one generation. Errors: data (the bytes are no manifest, or that of another stage).
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
            Created::Theirs(bytes) => Ok(Published::Theirs(Box::new(parse(&path, &bytes, &manifest.stage_digest, manifest.generation)?))),
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
            return Err(Error::bug(format!("generation {} of stage {} has no reason", manifest.generation, manifest.stage_digest.short())));
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
    let mut text = serde_json::to_vec(manifest).map_err(|e| Error::bug(format!("{path}: this manifest has no JSON form: {e}")))?;
    text.push(b'\n');
    Ok(text.into())
}

fn parse(path: &str, bytes: &[u8], stage: &Digest, generation: u32) -> Result<Manifest> {
    let manifest: Manifest = serde_json::from_slice(bytes).map_err(|e| {
        Error::data(format!("{path}: not a manifest: {e}"))
            .help("the store is damaged there; `--rerun` the stage to publish a new generation")
    })?;
    if manifest.format != 1 {
        return Err(
            Error::invalid(format!("{path}: manifest format {} is newer than this program", manifest.format)).help("use a newer trainyard")
        );
    }
    if manifest.stage_digest != *stage || manifest.generation != generation {
        return Err(Error::data(format!(
            "{path}: holds the manifest of stage {} generation {}",
            manifest.stage_digest, manifest.generation
        )));
    }
    Ok(manifest)
}

fn refuse_bad_numbers(manifest: &Manifest) -> Result<()> {
    match manifest.metrics.iter().find(|(_, value)| !value.is_finite()) {
        Some((name, value)) => {
            Err(Error::data(format!("stage {}: metric `{name}` is {value}, not a finite number", manifest.provenance.stage)))
        }
        None => Ok(()),
    }
}

fn split_name(path: &str) -> Option<(Digest, u32)> {
    let mut parts = path.rsplit('/');
    let generation = parts.next()?.strip_suffix(".json")?.parse().ok()?;
    Some((Digest::try_from(parts.next()?.to_string()).ok()?, generation))
}
