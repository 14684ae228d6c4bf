//! Fetches an output's files into a folder and verifies every byte.
//!
//! A stage that reads corrupt weights computes incorrect numbers without an error, and sizes do not reveal a flipped
//! bit. Hashing runs at the speed of a disk and warms the page cache for the stage, so files are always verified.

use crate::damage::{missing, require_inside};
use crate::error::file_error;
use crate::layout;
use crate::local;
use crate::store::Store;
use crate::upload::blocking;
use futures::{StreamExt, TryStreamExt, stream};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use trainyard_core::attempt::AttemptInput;
use trainyard_core::{Digest, ErrorKind, FileEntry, Output, Result};

/// Files fetched concurrently.
const MAX_CONCURRENT: usize = 4;

/// Transfer of a file from a store on a disk into its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchMode {
    /// As a read-only link: its bytes are not written again.
    Link,
    /// As a copy: changes to the file do not reach the store.
    Copy,
}

impl Store {
    /// Fills `folder` with an output's verified files: read-only links into a store on a disk, downloads from any
    /// other.
    ///
    /// Errors: lost (an object is missing), data (damaged at rest), retryable (damaged in transit, network, disk full).
    pub async fn fetch_output(&self, output: &Output, folder: &Path) -> Result<()> {
        self.fetch_files(&output.files, folder, FetchMode::Link).await
    }
    /// Fetches an input of an attempt like [`Store::fetch_output`]. The error of a missing or damaged object names the
    /// stage that made it.
    pub async fn fetch_input(&self, input: &AttemptInput, folder: &Path, mode: FetchMode) -> Result<()> {
        let Err(error) = self.fetch_files(&input.output.files, folder, mode).await else { return Ok(()) };
        if !matches!(error.kind, ErrorKind::Lost | ErrorKind::Data) {
            return Err(error);
        }
        Err(match self.manifest_at(&input.stage_digest, input.generation).await {
            Ok(Some(made)) => error.at(format!("output `{}` of stage `{}`", input.output_name, made.provenance.stage)),
            // Without the manifest, the error names only the object.
            Ok(None) | Err(_) => error,
        })
    }

    /// Fetches any files whose objects are in the store, like [`Store::fetch_output`].
    pub async fn fetch_files(&self, files: &[FileEntry], folder: &Path, mode: FetchMode) -> Result<()> {
        let targets = files.iter().map(|file| Ok((file.clone(), target(folder, file)?))).collect::<Result<Vec<_>>>()?;
        let fetches = stream::iter(targets).map(|(file, to)| async move { self.fetch_file(&file, &to, mode).await });
        fetches.buffer_unordered(MAX_CONCURRENT).try_collect().await
    }
    async fn fetch_file(&self, file: &FileEntry, to: &Path, mode: FetchMode) -> Result<()> {
        clear_target(to)?;
        let Some(from) = self.object_path(&file.digest) else {
            let found = self.download(&file.digest, to).await?;
            let verified = self.verify(file, found).await;
            if verified.is_err() {
                // Keeps corrupt bytes out of the folder; if that fails too, the original error is still reported.
                let _ = fs::remove_file(to);
            }
            return verified;
        };
        // Verified before it is linked, so that no corrupt byte enters the folder.
        let found = self.object_digest(&file.digest).await?;
        self.verify(file, found).await?;
        let to = to.to_path_buf();
        let place = match mode {
            FetchMode::Link => local::link,
            FetchMode::Copy => local::copy,
        };
        blocking(move || place(&from, &to).map_err(|e| file_error("write", &to.display().to_string(), &e))).await
    }
    /// Checks that the digest and size `found` under an object's name are those of the file.
    async fn verify(&self, file: &FileEntry, found: Option<(Digest, u64)>) -> Result<()> {
        match found {
            Some((digest, size)) if size == file.size && digest == file.digest => Ok(()),
            Some((_, size)) if size == file.size => Err(self.damaged(&file.digest).await),
            _ => Err(missing(self.url(), &layout::object(&file.digest))),
        }
    }
    /// Writes an object to a file. Returns digest and size of the received bytes; `None` if there is no such object.
    async fn download(&self, digest: &Digest, to: &Path) -> Result<Option<(Digest, u64)>> {
        let unwritable = |e: &std::io::Error| file_error("write", &to.display().to_string(), e);
        let mut out = fs::File::create(to).map_err(|e| unwritable(&e))?;
        self.stream_object(digest, |piece| out.write_all(piece).map_err(|e| unwritable(&e))).await
    }
}

fn clear_target(to: &Path) -> Result<()> {
    let Some(folder) = to.parent() else { return Ok(()) };
    fs::create_dir_all(folder).map_err(|e| file_error("make", &folder.display().to_string(), &e))
}

/// Returns the path of a file in the folder. Errors: data, if it points out of the folder.
fn target(folder: &Path, file: &FileEntry) -> Result<PathBuf> {
    require_inside(file)?;
    Ok(folder.join(&file.path))
}
