//! Reads and writes the cache of `huggingface_hub`: `KIND--OWNER--NAME/{blobs, refs, snapshots/COMMIT}` (`KIND` is
//! `datasets` or `models`), where snapshots link to blobs. Trainyard and `huggingface_hub` share the files in it.

use crate::location::{HubLocation, is_commit};
use std::fs::File;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;
use trainyard_core::error::io_error;
use trainyard_core::{Digest, Error, Result};

/// A folder of repositories.
pub struct HubCache {
    folder: PathBuf,
}

impl HubCache {
    pub fn at(folder: PathBuf) -> Self {
        Self { folder }
    }
    /// Returns the commit that a revision had when it was last resolved; `None` if the cache does not record it.
    pub fn commit(&self, location: &HubLocation) -> Option<String> {
        let commit = std::fs::read_to_string(self.reference(location)).ok()?;
        Some(commit.trim().to_string()).filter(|commit| is_commit(commit))
    }
    /// Records the commit of a revision.
    pub fn record_commit(&self, location: &HubLocation, commit: &str) -> Result<()> {
        let path = self.reference(location);
        make_folder_of(&path)?;
        std::fs::write(&path, commit).map_err(|e| io_error(&path, &e))
    }
    /// Returns the paths of the fetched files of a commit; `None` if the commit is not in the cache.
    pub fn files(&self, location: &HubLocation) -> Option<Vec<String>> {
        let root = self.snapshot(location);
        let mut names = Vec::new();
        let mut folders = vec![String::new()];
        while let Some(at) = folders.pop() {
            for entry in std::fs::read_dir(root.join(&at)).ok()? {
                let entry = entry.ok()?;
                let base = entry.file_name().to_string_lossy().into_owned();
                let name = if at.is_empty() { base } else { format!("{at}/{base}") };
                if entry.path().is_dir() { folders.push(name) } else { names.push(name) }
            }
        }
        Some(names)
    }
    /// Returns the path of a file of a commit, fetched or not. Errors: data (a name that leads out of the repository).
    pub fn file(&self, location: &HubLocation, name: &str) -> Result<PathBuf> {
        let odd = |part: &str| part.is_empty() || part == "." || part == ".." || part.contains(['\\', '\0']);
        if name.split('/').any(odd) {
            return Err(Error::data(format!("{location} has a file with an unsafe name: `{}`", name.escape_debug())));
        }
        Ok(self.snapshot(location).join(name))
    }
    /// Stores the file that `fill` writes, under the SHA-256 that it returns. An interrupted download has no effect.
    pub fn store(
        &self,
        location: &HubLocation,
        name: &str,
        fill: impl FnOnce(&mut File) -> Result<Digest>,
    ) -> Result<PathBuf> {
        let path = self.file(location, name)?;
        let blobs = self.repository(location).join("blobs");
        std::fs::create_dir_all(&blobs).map_err(|e| io_error(&blobs, &e))?;
        let mut file = NamedTempFile::new_in(&blobs).map_err(|e| io_error(&blobs, &e))?;
        let digest = fill(file.as_file_mut())?;
        let blob = blobs.join(digest.as_str());
        file.persist(&blob).map_err(|e| io_error(&blob, &e.error))?;
        make_folder_of(&path)?;
        let up = "../".repeat(2 + name.matches('/').count());
        match std::os::unix::fs::symlink(format!("{up}blobs/{digest}"), &path) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => Err(io_error(&path, &e)),
            _ => Ok(path),
        }
    }

    fn repository(&self, location: &HubLocation) -> PathBuf {
        self.folder.join(format!("{}--{}", location.kind.plural(), location.repository.replace('/', "--")))
    }
    fn reference(&self, location: &HubLocation) -> PathBuf {
        self.repository(location).join("refs").join(&location.revision)
    }
    fn snapshot(&self, location: &HubLocation) -> PathBuf {
        self.repository(location).join("snapshots").join(&location.revision)
    }
}

fn make_folder_of(path: &Path) -> Result<()> {
    path.parent().map_or(Ok(()), |folder| std::fs::create_dir_all(folder).map_err(|e| io_error(folder, &e)))
}
