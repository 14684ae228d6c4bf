//! Bringing an output's files to a folder, linked or copied, and checking that they are what the manifest says.

use crate::layout;
use crate::local;
use crate::objects::{damaged, missing};
use crate::problem::{fault, io_fault};
use crate::store::Store;
use crate::upload::{blocking, hash_file};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStoreExt;
use std::fs;
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use trainyard_core::digest::Hasher;
use trainyard_core::{Digest, Error, FileEntry, Output, Result};

/// Downloads in flight.
const CONCURRENT: usize = 4;

/// What is wrong with an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DamageKind {
    /// Not there, or of another size.
    Missing,
    /// Its bytes have another digest.
    Corrupt,
}

/// A file of an output whose object does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    pub file: FileEntry,
    pub kind: DamageKind,
}

impl Store {
    /// Fills `folder` with an output's files, sizes verified: links into a store on a disk (read-only; hard, else symbolic),
    /// downloads from any other, digests verified on the way. Errors: lost (an object is missing), data (damaged in transit or
    /// at rest), retryable (network, disk full).
    pub async fn fetch_output(&self, output: &Output, folder: &Path) -> Result<()> {
        self.bring(output, folder, local::link).await
    }
    /// The same with copies in place of links: whatever is done to the files, the store keeps its own.
    pub async fn copy_output(&self, output: &Output, folder: &Path) -> Result<()> {
        self.bring(output, folder, local::copy).await
    }
    /// Reads every object of an output and lists those that do not hold.
    pub async fn verify_output(&self, output: &Output) -> Result<Vec<Damage>> {
        let mut damages = Vec::new();
        for file in &output.files {
            let kind = match self.object_digest(&file.digest).await? {
                Some((digest, size)) if digest == file.digest && size == file.size => continue,
                Some((_, size)) if size == file.size => DamageKind::Corrupt,
                _ => DamageKind::Missing,
            };
            damages.push(Damage { file: file.clone(), kind });
        }
        Ok(damages)
    }
    /// Removes an object whose bytes have another digest, so that the next attempt stores it anew; returns whether it did.
    pub async fn discard_corrupt(&self, digest: &Digest) -> Result<bool> {
        match self.object_digest(digest).await? {
            Some((found, _)) if found != *digest => self.delete(&layout::object(digest)).await.map(|()| true),
            _ => Ok(false),
        }
    }

    /// `place` gets a file of a store on a disk to its target.
    async fn bring(&self, output: &Output, folder: &Path, place: fn(&Path, &Path) -> io::Result<()>) -> Result<()> {
        let targets = output.files.iter().map(|file| Ok((file.clone(), target(folder, &file.path)?))).collect::<Result<Vec<_>>>()?;
        if let Some(root) = self.local_root() {
            let (root, url) = (root.to_path_buf(), self.url().to_string());
            return blocking(move || targets.iter().try_for_each(|(file, to)| take(&url, &root, file, to, place))).await;
        }
        let downloads = stream::iter(targets).map(|(file, to)| async move { self.download(&file, &to).await });
        downloads.buffer_unordered(CONCURRENT).try_collect().await
    }
    /// Digest and size of the bytes that stand under an object's name.
    async fn object_digest(&self, digest: &Digest) -> Result<Option<(Digest, u64)>> {
        let place = layout::object(digest);
        if let Some(path) = self.object_path(digest) {
            return blocking(move || if path.is_file() { hash_file(&path).map(Some) } else { Ok(None) }).await;
        }
        let failed = |e: &object_store::Error| fault("read", self.url(), &place, e);
        let mut pieces = match self.connection().objects().get(&crate::connection::parse(&place)?).await {
            Ok(found) => found.into_stream(),
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(e) => return Err(failed(&e)),
        };
        let (mut hasher, mut size) = (Hasher::new(), 0);
        while let Some(piece) = pieces.try_next().await.map_err(|e| failed(&e))? {
            hasher.update(&piece);
            size += piece.len() as u64;
        }
        Ok(Some((hasher.finish(), size)))
    }
    async fn download(&self, file: &FileEntry, to: &Path) -> Result<()> {
        let place = layout::object(&file.digest);
        let failed = |e: &object_store::Error| fault("read", self.url(), &place, e);
        let mut pieces = match self.connection().objects().get(&crate::connection::parse(&place)?).await {
            Ok(found) => found.into_stream(),
            Err(object_store::Error::NotFound { .. }) => return Err(missing(self.url(), &place)),
            Err(e) => return Err(failed(&e)),
        };
        let unwritable = |e: &io::Error| io_fault("write", &to.display().to_string(), e);
        make_room(to)?;
        let mut out = fs::File::create(to).map_err(|e| unwritable(&e))?;
        let (mut hasher, mut size) = (Hasher::new(), 0);
        while let Some(piece) = pieces.try_next().await.map_err(|e| failed(&e))? {
            hasher.update(&piece);
            size += piece.len() as u64;
            out.write_all(&piece).map_err(|e| unwritable(&e))?;
        }
        if size != file.size {
            return Err(missing(self.url(), &place));
        }
        if hasher.finish() != file.digest { Err(damaged(self.url(), &place)) } else { Ok(()) }
    }
}

fn take(url: &str, root: &Path, file: &FileEntry, to: &Path, place: fn(&Path, &Path) -> io::Result<()>) -> Result<()> {
    let name = layout::object(&file.digest);
    let from = root.join(&name);
    let size = local::size(&from).map_err(|e| io_fault("read", &from.display().to_string(), &e))?;
    if size != Some(file.size) {
        return Err(missing(url, &name));
    }
    make_room(to)?;
    place(&from, to).map_err(|e| io_fault("write", &to.display().to_string(), &e))
}

fn make_room(to: &Path) -> Result<()> {
    let Some(folder) = to.parent() else { return Ok(()) };
    fs::create_dir_all(folder).map_err(|e| io_fault("make", &folder.display().to_string(), &e))
}

/// A file's place in the folder; a manifest may not point out of it.
fn target(folder: &Path, path: &str) -> Result<PathBuf> {
    let relative = Path::new(path);
    if path.is_empty() || !relative.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(Error::data(format!("the manifest names the file `{path}`, which is no path inside its folder")));
    }
    Ok(folder.join(relative))
}
