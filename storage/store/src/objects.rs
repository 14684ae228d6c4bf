//! Payload files by content: `objects/<aa>/<sha256>`.
//!
//! Why so: equal bytes are stored once, whoever makes them, and a name never changes its meaning; so puts need no create-only
//! rule and may be repeated. Refuses: nothing but read-only stores; bytes are hashed twice, so a file that changes while it is
//! stored is an error, never a wrong object.

use crate::layout;
use crate::store::Store;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use std::path::PathBuf;
use trainyard_core::{Digest, Error, FileEntry, Result};

/// Requests in flight for checks of many objects.
const CONCURRENT: usize = 16;

impl Store {
    /// Stores bytes under their digest. Skips the put when they are there already.
    pub async fn put_object(&self, bytes: Bytes) -> Result<(Digest, u64)> {
        let (digest, size) = (Digest::of(&bytes), bytes.len() as u64);
        if !self.has_object(&digest, size).await? {
            self.writable(&layout::object(&digest))?;
            self.upload_bytes(&layout::object(&digest), bytes).await?;
        }
        Ok((digest, size))
    }
    /// Whether the object is there with this size in bytes.
    pub async fn has_object(&self, digest: &Digest, size: u64) -> Result<bool> {
        Ok(self.connection().size(&layout::object(digest)).await? == Some(size))
    }
    /// Whether all files' objects are there with their sizes.
    pub async fn has_objects(&self, files: &[FileEntry]) -> Result<bool> {
        Ok(self.first_missing(files).await?.is_none())
    }
    /// The bytes of an object, checked against its digest. Errors: lost (missing), data (damaged).
    pub async fn read_object(&self, digest: &Digest) -> Result<Bytes> {
        let path = layout::object(digest);
        let bytes = self.get(&path).await?.ok_or_else(|| missing(self.url(), &path))?;
        if Digest::of(&bytes) != *digest {
            return Err(damaged(self.url(), &path));
        }
        Ok(bytes)
    }
    /// Where an object lies on a store that is a folder.
    pub fn object_path(&self, digest: &Digest) -> Option<PathBuf> {
        self.local_root().map(|root| root.join(layout::object(digest)))
    }

    /// Errors: lost, naming the first object that is not there.
    pub(crate) async fn require_objects(&self, files: &[FileEntry]) -> Result<()> {
        match self.first_missing(files).await? {
            Some(file) => Err(missing(self.url(), &layout::object(&file.digest)).at(format!("file `{}`", file.path))),
            None => Ok(()),
        }
    }
    async fn first_missing<'a>(&self, files: &'a [FileEntry]) -> Result<Option<&'a FileEntry>> {
        // Made before they are streamed: a stream that holds the closure is not `Send` for every lifetime, so no task could run it.
        let checks: Vec<_> =
            files.iter().map(|file| async move { Ok::<_, Error>((self.has_object(&file.digest, file.size).await?, file)) }).collect();
        let answers: Vec<_> = stream::iter(checks).buffered(CONCURRENT).try_collect().await?;
        Ok(answers.into_iter().find(|(there, _)| !there).map(|(_, file)| file))
    }
}

pub(crate) fn missing(url: &str, path: &str) -> Error {
    Error::lost(format!("{url}/{path} is missing or has another size"))
        .help("the stage that made it must run again: `trainyard run --rerun <stage>`")
}

pub(crate) fn damaged(url: &str, path: &str) -> Error {
    Error::data(format!("{url}/{path} is damaged: its bytes do not have the digest in its name"))
        .help("the stage that made it must run again: `trainyard run --rerun <stage>`")
}
