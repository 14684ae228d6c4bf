//! Bringing an output's files to a folder, every byte verified.
//!
//! Why so: a stage that reads wrong weights gives wrong numbers and no error, and a size says nothing about a flipped bit. Hashing
//! runs at the speed of a disk and warms the cache for the stage, so nothing is remembered between readings that could be wrong in
//! turn. Refuses: bytes that do not have their digest (`damage.rs` says what follows), and a path out of the folder.

use crate::damage::missing;
use crate::layout;
use crate::local;
use crate::problem::io_fault;
use crate::store::Store;
use crate::upload::blocking;
use futures::{StreamExt, TryStreamExt, stream};
use std::fs;
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use trainyard_core::attempt::AttemptInput;
use trainyard_core::{Digest, Error, ErrorKind, FileEntry, Output, Result};

/// Files in flight.
const CONCURRENT: usize = 4;

/// How a file of a store on a disk gets to its folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchMode {
    /// Read-only, without its bytes being written again.
    Link,
    /// Whatever is done to the file, the store keeps its own.
    Copy,
}

impl Store {
    /// Fills `folder` with an output's files, digests verified: links into a store on a disk (read-only; hard, else symbolic),
    /// downloads from any other. Errors: lost (an object is missing), data (damaged at rest), retryable (damaged in transit,
    /// network, disk full).
    pub async fn fetch_output(&self, output: &Output, folder: &Path) -> Result<()> {
        self.fetch_files(&output.files, folder, FetchMode::Link).await
    }
    /// The same for an input of an attempt; an object that does not hold is told with the stage that made it.
    pub async fn fetch_input(&self, input: &AttemptInput, folder: &Path, mode: FetchMode) -> Result<()> {
        let Err(error) = self.fetch_files(&input.output.files, folder, mode).await else { return Ok(()) };
        if !matches!(error.kind, ErrorKind::Lost | ErrorKind::Data) {
            return Err(error);
        }
        Err(match self.manifest_at(&input.stage_digest, input.generation).await {
            Ok(Some(made)) => error.at(format!("output `{}` of stage `{}`", input.output_name, made.provenance.stage)),
            // Without its manifest the name of the object must do.
            Ok(None) | Err(_) => error,
        })
    }

    pub(crate) async fn fetch_files(&self, files: &[FileEntry], folder: &Path, mode: FetchMode) -> Result<()> {
        let targets =
            files.iter().map(|file| Ok((file.clone(), target(folder, &file.path)?))).collect::<Result<Vec<_>>>()?;
        let fetches = stream::iter(targets).map(|(file, to)| async move { self.fetch_file(&file, &to, mode).await });
        fetches.buffer_unordered(CONCURRENT).try_collect().await
    }
    async fn fetch_file(&self, file: &FileEntry, to: &Path, mode: FetchMode) -> Result<()> {
        make_room(to)?;
        let Some(from) = self.object_path(&file.digest) else {
            let found = self.download(&file.digest, to).await?;
            let judged = self.judge(file, found).await;
            if judged.is_err() {
                // The error says it all; this only keeps wrong bytes from whoever looks into the folder.
                let _ = fs::remove_file(to);
            }
            return judged;
        };
        // Judged before it is linked, so that no wrong byte enters the folder.
        let found = self.object_digest(&file.digest).await?;
        self.judge(file, found).await?;
        let to = to.to_path_buf();
        let place = match mode {
            FetchMode::Link => local::link,
            FetchMode::Copy => local::copy,
        };
        blocking(move || place(&from, &to).map_err(|e| io_fault("write", &to.display().to_string(), &e))).await
    }
    /// Whether what was found under a file's object is that file.
    async fn judge(&self, file: &FileEntry, found: Option<(Digest, u64)>) -> Result<()> {
        match found {
            Some((digest, size)) if size == file.size && digest == file.digest => Ok(()),
            Some((_, size)) if size == file.size => Err(self.damaged(&file.digest).await),
            _ => Err(missing(self.url(), &layout::object(&file.digest))),
        }
    }
    /// Writes an object's bytes to a file. Digest and size of what arrived, or none if there is no such object.
    async fn download(&self, digest: &Digest, to: &Path) -> Result<Option<(Digest, u64)>> {
        let unwritable = |e: &std::io::Error| io_fault("write", &to.display().to_string(), e);
        let mut out = fs::File::create(to).map_err(|e| unwritable(&e))?;
        self.stream_object(digest, |piece| out.write_all(piece).map_err(|e| unwritable(&e))).await
    }
}

fn make_room(to: &Path) -> Result<()> {
    let Some(folder) = to.parent() else { return Ok(()) };
    fs::create_dir_all(folder).map_err(|e| io_fault("make", &folder.display().to_string(), &e))
}

/// A file's place in the folder; a manifest may not point out of it.
fn target(folder: &Path, path: &str) -> Result<PathBuf> {
    let relative = Path::new(path);
    if path.is_empty() || !relative.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(Error::data(format!(
            "the manifest names the file `{path}`, which is not a path inside its folder"
        )));
    }
    Ok(folder.join(relative))
}
