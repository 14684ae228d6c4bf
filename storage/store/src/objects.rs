//! Stores and reads payload files under the SHA-256 of their content: `objects/<aa>/<sha256>`.
//!
//! Equal bytes are stored once, and a name always means the same bytes. Puts of objects therefore need no create-only
//! rule and may be repeated. Before a put is skipped, the existing object is read to its end, since its name and size
//! do not reveal damage; a repeated put repairs it. An object older than [`RENEWED`] is put again even if it is intact,
//! because garbage collection decides by age and the caller is about to name the object. A file is hashed twice, so a
//! file that changes during its upload causes an error and never an object with an incorrect name.

use crate::damage::missing;
use crate::error::file_error;
use crate::garbage::RENEWED;
use crate::layout;
use crate::local;
use crate::store::Store;
use crate::upload::{blocking, hash_file};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use std::ops::Range;
use std::path::{Path, PathBuf};
use trainyard_core::{Digest, Error, FileEntry, Result};

/// Concurrent requests of checks of many objects.
const MAX_CONCURRENT: usize = 16;

impl Store {
    /// Stores bytes under their digest, unless an intact object more recent than [`RENEWED`] exists. Returns digest and
    /// size in bytes.
    pub async fn put_object(&self, bytes: Bytes) -> Result<(Digest, u64)> {
        let (digest, size) = (Digest::of(&bytes), bytes.len() as u64);
        if !self.is_durable(&digest, size).await? {
            self.writable(&layout::object(&digest))?;
            self.upload_bytes(&layout::object(&digest), bytes).await?;
        }
        Ok((digest, size))
    }
    /// Whether the object exists with this size in bytes.
    pub async fn has_object(&self, digest: &Digest, size: u64) -> Result<bool> {
        Ok(self.connection().size(&layout::object(digest)).await? == Some(size))
    }
    /// Whether all files' objects exist with their sizes.
    pub async fn has_objects(&self, files: &[FileEntry]) -> Result<bool> {
        Ok(self.first_missing(files).await?.is_none())
    }
    /// Reads an object and checks it against its digest. Errors: lost (missing), data (damaged).
    pub async fn read_object(&self, digest: &Digest) -> Result<Bytes> {
        let path = layout::object(digest);
        let mut bytes = Vec::new();
        let found = self.stream_object(digest, |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        });
        let found = found.await?;
        match found {
            None => Err(missing(self.url(), &path)),
            Some((found, _)) if found != *digest => Err(self.damaged(digest).await),
            Some(_) => Ok(bytes.into()),
        }
    }
    /// Reads a range of an object, unchecked: only a whole object can be checked against its digest. Errors: lost
    /// (missing).
    pub async fn read_object_range(&self, digest: &Digest, range: Range<u64>) -> Result<Bytes> {
        let path = layout::object(digest);
        self.connection().read_range(&path, range).await?.ok_or_else(|| missing(self.url(), &path))
    }
    /// Returns the path of an object in a store that is a folder; `None` in any other.
    pub fn object_path(&self, digest: &Digest) -> Option<PathBuf> {
        self.local_root().map(|root| root.join(layout::object(digest)))
    }

    /// Whether the object exists, is undamaged, and is so recent that garbage collection keeps it until a result names
    /// it. In a read-only store only damage is checked.
    pub(crate) async fn is_durable(&self, digest: &Digest, size: u64) -> Result<bool> {
        if !self.is_intact(digest, size).await? {
            return Ok(false);
        }
        if self.options().read_only {
            return Ok(true);
        }
        let modified = self.connection().modified(&layout::object(digest)).await?;
        let now = self.options().clock.unix_millis();
        Ok(modified.is_some_and(|modified| now.saturating_sub(modified) < RENEWED.as_millis() as i64))
    }
    /// Whether the object exists with this size and, when read to its end, has its digest.
    pub(crate) async fn is_intact(&self, digest: &Digest, size: u64) -> Result<bool> {
        if !self.has_object(digest, size).await? {
            return Ok(false);
        }
        Ok(matches!(self.object_digest(digest).await, Ok(Some((found, _))) if found == *digest))
    }
    /// Returns digest and size of the bytes under an object's name.
    pub(crate) async fn object_digest(&self, digest: &Digest) -> Result<Option<(Digest, u64)>> {
        if let Some(path) = self.object_path(digest) {
            return blocking(move || hash_local(&path)).await;
        }
        self.stream_object(digest, |_| Ok(())).await
    }
    /// Checks that all objects exist with their sizes. Errors: lost, naming the first file whose object is missing.
    pub async fn require_objects(&self, files: &[FileEntry]) -> Result<()> {
        match self.first_missing(files).await? {
            Some(file) => Err(missing(self.url(), &layout::object(&file.digest)).at(format!("file `{}`", file.path))),
            None => Ok(()),
        }
    }
    /// Returns the first file whose object is missing or has another size.
    pub(crate) async fn first_missing<'a>(&self, files: &'a [FileEntry]) -> Result<Option<&'a FileEntry>> {
        // Collected first: a stream that holds the closure is not `Send` for every lifetime, so no task could run it.
        let checks: Vec<_> = files
            .iter()
            .map(|file| async move { Ok::<_, Error>((self.has_object(&file.digest, file.size).await?, file)) })
            .collect();
        let results: Vec<_> = stream::iter(checks).buffered(MAX_CONCURRENT).try_collect().await?;
        Ok(results.into_iter().find(|(exists, _)| !exists).map(|(_, file)| file))
    }
}

/// Returns digest and size of a file; `None` if it does not exist.
fn hash_local(path: &Path) -> Result<Option<(Digest, u64)>> {
    match local::size(path) {
        Ok(Some(_)) => hash_file(path).map(Some),
        Ok(None) => Ok(None),
        Err(e) => Err(file_error("read", &path.display().to_string(), &e)),
    }
}
