//! Handles damaged and missing objects.
//!
//! A lookup checks only names and sizes, because otherwise a cache hit would read all data. A reader that finds an
//! object damaged therefore removes it: the next lookup misses the object, and its stage runs again. If the object
//! cannot be removed, `--rerun` overwrites it. An object that was damaged only in transit stays.

use crate::layout;
use crate::store::Store;
use trainyard_core::{Digest, Error, FileEntry, Result};

impl Store {
    /// Returns the error of a reader whose bytes do not have the object's digest: data if the object is damaged in the
    /// store, and then it is removed; retryable if it is intact there.
    pub(crate) async fn damaged(&self, digest: &Digest) -> Error {
        let place = format!("{}/{}", self.url(), layout::object(digest));
        let error = Error::data(format!("{place} is damaged: its bytes do not have the digest in its name"));
        let removed = if self.options().read_only { None } else { self.discard_corrupt(digest).await.ok() };
        match removed {
            Some(true) => error.help("it was removed; run the workflow again: the stage that made it runs again"),
            Some(false) => {
                Error::retryable(format!("{place} was damaged in transit")).help("run the same command again")
            }
            None => error.help("run the stage that made it again: `trainyard run --rerun <stage>`"),
        }
    }
    /// Removes an object whose bytes have another digest; returns whether it did. If another process stores it again in
    /// between, that copy may be removed too, and its stage runs again.
    pub(crate) async fn discard_corrupt(&self, digest: &Digest) -> Result<bool> {
        match self.object_digest(digest).await? {
            Some((found, _)) if found != *digest => self.delete(&layout::object(digest)).await.map(|()| true),
            _ => Ok(false),
        }
    }
}

/// Returns the error of a missing object. `path` is its path in the store.
pub(crate) fn missing(url: &str, path: &str) -> Error {
    Error::lost(format!("{url}/{path} is missing or has another size"))
        .help("run the workflow again: the stage that made it runs again")
}

/// Rejects a file path outside of its folder. Errors: data.
pub(crate) fn require_inside(file: &FileEntry) -> Result<()> {
    if file.stays_inside() {
        return Ok(());
    }
    Err(Error::data(format!("the path {:?} of a manifest leaves the manifest's folder", file.path)))
}
